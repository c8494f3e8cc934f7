# Tollgate with a Redis elsewhere: there is none in the image.
#
#   docker build -t tollgate .
#   docker run --name tollgate --read-only --tmpfs /tmp --stop-timeout 65 -p 8080:8080 \
#     -v tollgate:/data -v ./etc:/config:ro tollgate
#   docker exec tollgate tollgate accounts list
#
# Mount the folder that gateway.yaml is in: of a file that is mounted alone, the container never sees the one that an editor
# or git puts in its place, and goes on with the old one. In that gateway.yaml: `data: /data`, `redis: redis://…`. The data
# folder keeps settlements while Redis is away and old journal entries: it has to outlive the container. The admin API listens
# on 127.0.0.1 inside unless told otherwise; where it has another port, say ADMIN_PORT for the health check. `--stop-timeout`
# is to be 30 s longer than `shutdown_delay` and `drain` together.

FROM node:24-slim AS install
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
# The image's own node runs it; the pinned one is an optional dependency.
RUN npm ci --omit=dev --omit=optional --ignore-scripts \
  # A third of the packages is source maps and types, which nothing reads here.
  && find node_modules -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' | xargs rm

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
RUN install -d -o node -g node -m 0700 /data
COPY --from=install /app/node_modules ./node_modules
COPY package.json LICENSE ./
COPY config ./config
COPY src ./src
RUN ln -s /app/src/tollgate.cjs /usr/local/bin/tollgate
USER node
VOLUME /data
# Where gateway.yaml is.
WORKDIR /config
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["node", "-e", \
  "fetch('http://127.0.0.1:' + (process.env.ADMIN_PORT || 9090) + '/readyz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# Handles being PID 1: SIGTERM drains.
ENTRYPOINT ["node", "--max-semi-space-size=16", "--no-allocation-site-pretenuring", "/app/src/tollgate.cjs"]
CMD ["start"]
