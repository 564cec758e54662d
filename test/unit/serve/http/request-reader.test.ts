import { describe, expect, it } from 'vitest';
import {
  bodyBytesKept,
  bodyBytesMax,
  type HttpRequest,
  headBytesMax,
  RequestReader,
} from '../../../../src/serve/http/request-reader.ts';

function read(text: string): ReturnType<RequestReader['push']> {
  return new RequestReader().push(Buffer.from(text, 'latin1'));
}

function request(text: string): HttpRequest {
  const progress = read(text);
  if (progress.kind !== 'request') throw new Error(JSON.stringify(progress));
  expect(progress.used).toBe(text.length);
  return progress.request;
}

const head = 'POST /a HTTP/1.1\r\nHost: h\r\n';

describe('an HTTP request', () => {
  it('is read with the fields that answers depend on', () => {
    const headers =
      'hOsT:\t localhost:1 \r\nAccept: a\r\nACCEPT: b\r\nAccept-Encoding: gzip\r\n' +
      'Authorization: Bearer x\r\n';
    expect(request(`GET /a?b=c HTTP/1.1\r\n${headers}\r\n`)).toEqual({
      method: 'GET',
      target: '/a?b=c',
      host: 'localhost:1',
      accept: 'a, b',
      acceptEncoding: 'gzip',
      authorization: 'Bearer x',
      keepAlive: true,
      body: '',
    });
  });

  it.each([
    ['HTTP/1.1\r\nHost: h', true],
    ['HTTP/1.1\r\nHost: h\r\nConnection: x, Close', false],
    ['HTTP/1.0', false],
    ['HTTP/1.0\r\nConnection: keep-alive', true],
  ])('with %j keeps its connection open: %s', (rest, keepAlive) => {
    expect(request(`GET / ${rest}\r\n\r\n`).keepAlive).toBe(keepAlive);
  });

  it('arrives in any chunks, after an empty line, with another one behind it', () => {
    const text = `\r\n${head}Content-Length: 3\r\n\r\n123GET`;
    for (let cut = 0; cut < text.length - 3; cut += 1) {
      const reader = new RequestReader();
      expect(reader.push(Buffer.from(text.slice(0, cut))).kind).toBe('more');
      const progress = reader.push(Buffer.from(text.slice(cut)));
      expect(progress).toMatchObject({ kind: 'request', used: text.length - 3 - cut });
      expect(reader.begun).toBe(false);
    }
  });

  it('may have a chunked body, with extensions and trailers', () => {
    const chunks = '2;a=b\r\n12\r\n01 ;x\r\n3\r\n0\r\nTrailer: x\r\n\r\n';
    expect(request(`${head}Transfer-Encoding: Chunked\r\n\r\n${chunks}`).body).toBe('123');
  });

  it('is kept with the beginning of its body', () => {
    const body = 'x'.repeat(bodyBytesMax);
    const text = `${head}Content-Length: ${body.length}\r\n\r\n${body}`;
    expect(request(text).body).toBe(body.slice(0, bodyBytesKept));
  });

  it('gets 100 Continue if it expects that', () => {
    const text = `${head}Content-Length: 1\r\nExpect: 100-Continue\r\n\r\n`;
    expect(read(text)).toEqual({ kind: 'more', continues: true });
    expect(read(`${text}x`).kind).toBe('request');
  });
});

describe('an ambiguous or invalid HTTP request is rejected', () => {
  it.each([
    ['TLS', '\x16\x03\x01', 400],
    ['a bare line feed', 'GET / HTTP/1.1\nHost: h\r\n\r\n', 400],
    ['two spaces', 'GET  / HTTP/1.1\r\nHost: h\r\n\r\n', 400],
    ['no version', 'GET /\r\nHost: h\r\n\r\n', 400],
    ['a space before the colon', 'GET / HTTP/1.1\r\nHost : h\r\n\r\n', 400],
    ['a header that goes on in the next line', `${head}A: b\r\n c\r\n\r\n`, 400],
    ['a header without a colon', `${head}A\r\n\r\n`, 400],
    ['a zero byte', `${head}A: b\0\r\n\r\n`, 400],
    ['a carriage return in a value', `${head}A: b\rc\r\n\r\n`, 400],
    ['no Host', 'GET / HTTP/1.1\r\n\r\n', 400],
    ['two Hosts', `${head}Host: h\r\n\r\n`, 400],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505],
    ['another expectation', `${head}Expect: magic\r\n\r\n`, 417],
    ['two lengths', `${head}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`, 400],
    ['two lengths in one header', `${head}Content-Length: 1, 1\r\n\r\n`, 400],
    ['a negative length', `${head}Content-Length: -1\r\n\r\n`, 400],
    ['a length with a sign', `${head}Content-Length: +1\r\n\r\n`, 400],
    ['a length and chunks', `${head}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`, 400],
    ['chunks in HTTP/1.0', 'GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n', 400],
    ['another coding', `${head}Transfer-Encoding: gzip, chunked\r\n\r\n`, 501],
    ['a chunk that is longer than it says', chunked('1\r\n12\r\n'), 400],
    ['a chunk without a size', chunked('\r\n'), 400],
    ['a size that is no number', chunked('0x1\r\n'), 400],
    ['a chunk with a bare line feed', chunked('1\n'), 400],
    ['a size line without end', chunked(`1;${'x'.repeat(300)}`), 400],
    ['a trailer without a name', chunked('0\r\n:\r\n'), 400],
    ['headers that are too large', `${head}A: ${'x'.repeat(headBytesMax)}\r\n\r\n`, 431],
    ['headers without end', `${head}A: ${'x'.repeat(headBytesMax)}`, 431],
    ['a body that is too large', `${head}Content-Length: ${bodyBytesMax + 1}\r\n\r\n`, 413],
    ['a chunk that is too large', chunked('ffffffff\r\n'), 413],
    ['chunks without end', chunked('1\r\nx\r\n'.repeat(bodyBytesMax)), 413],
  ])('for %s', (_, text, status) => {
    expect(read(text)).toMatchObject({ kind: 'refused', status });
  });

  function chunked(body: string): string {
    return `${head}Transfer-Encoding: chunked\r\n\r\n${body}`;
  }

  it('the head of a request is read in time proportional to its length', () => {
    // A pattern that tries all places of a blank would take minutes for all of these.
    for (let i = 0; i < 200; i += 1) {
      const text = `${head}A: x${' '.repeat(headBytesMax - 100)}x\r\n\r\n`;
      expect(read(text).kind).toBe('request');
    }
  });
});
