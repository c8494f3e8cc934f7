import t from 'tap'
import { endpoints } from '../../src/config/endpoints.ts'
import { chatRoutes } from '../../src/openapi/chat-routes.ts'

t.test('there is one for each endpoint, and only those that generate stream', async (t) => {
  t.equal(Object.keys(chatRoutes).length, endpoints.length)
  for (const { routes, generates } of endpoints) {
    const content = chatRoutes[`POST ${routes.join(', ')}`]?.replies[200]?.content ?? {}
    t.equal('text/event-stream' in content, generates, routes.join())
    t.ok('application/json' in content)
  }
})
