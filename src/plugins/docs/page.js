// Shows /openapi.json by Swagger UI. The key that a reader enters stays in this page: no cookie, no storage. The
// validator is off, because it is on another host.

globalThis.SwaggerUIBundle({
  dom_id: '#api',
  url: 'openapi.json',
  layout: 'BaseLayout',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  queryConfigEnabled: false,
  validatorUrl: null,
  withCredentials: false,
})
