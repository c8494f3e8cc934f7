// Frames as they are written and found.

import t from 'tap'
import {
  Numbered,
  frameAfter,
  frameStart,
  framesToData,
  lastFrame,
} from '../../../src/sessions/streams/frames.ts'

t.test('frames are numbered from 0, whoever makes them', async (t) => {
  const frames = new Numbered('msg_1')
  t.equal(frames.frame({ event: undefined, data: 'x' }), 'id: msg_1:0\ndata: x\n\n')
  t.equal(frames.frame({ event: 'n', data: 'y\n' }), 'id: msg_1:1\nevent: n\ndata: y\ndata: \n\n')
  t.equal(frames.next, 2)
})

t.test('a frame is found by its number, and never inside a value', async (t) => {
  const text = Buffer.from('id: m:8\ndata: id: m:9\n\nid: m:9\ndata: x\n\nid: m:90\ndata: y\n\n')
  t.equal(frameStart(text, 'm', 8), 0)
  const nine = text.indexOf('id: m:9\ndata: x')
  t.equal(frameStart(text, 'm', 9), nine)
  for (const seq of [0, 7, 10]) t.equal(frameStart(text, 'm', seq), undefined)
  t.equal(frameStart(Buffer.alloc(0), 'm', 0), undefined)
  t.strictSame(frameAfter(text, 'm', 0), { start: nine, seq: 9 })
  t.strictSame(frameAfter(text, 'm', nine), { start: text.indexOf('id: m:90'), seq: 90 })
  t.equal(frameAfter(text, 'm', text.indexOf('id: m:90')), undefined)
  t.strictSame(lastFrame(text, 'm'), { start: text.indexOf('id: m:90'), seq: 90 })
  t.equal(lastFrame(text.subarray(nine, text.indexOf('id: m:90')), 'm'), undefined)
})

t.test('frames give back the data they were made of', async (t) => {
  const frames = [
    'id: msg_1:0\ndata: {"a":1}\n\n',
    'id: msg_1:1\nevent: x\ndata: {"b":\ndata: 2}\n\n',
    'id: msg_1:2\ndata: \xc3\xa9\n\n',
    'id: msg_1:3\ndata: [DONE]\n\n',
  ].join('')
  t.strictSame([...framesToData(frames)], ['{"a":1}', '{"b":\n2}', '\xc3\xa9', '[DONE]'])
  t.strictSame([...framesToData('')], [])
  t.strictSame([...framesToData('id: msg_1:0\ndata: cut')], [])
  t.strictSame([...framesToData(':\nretry: 1000\nid: msg_1:0\ndata: x\n\n')], ['x'])
})
