import { createServer } from 'node:http';
import { expect, it, onTestFinished } from 'vitest';
import { ask, reply } from '../../../src/cli/ask/client.ts';
import { UnreachableError } from '../../../src/cli/errors.ts';
import { freePort } from '../free-port.ts';

it('a command does not read an answer without an end, of a program that has taken the port', async () => {
  const piece = Buffer.alloc(1024 * 1024, ' ');
  let sent = 0;
  const server = createServer((_, response) => {
    const more = (): void => {
      while (!response.destroyed && response.write(piece)) sent += 1;
    };
    response.on('drain', more);
    more();
  });
  const port = await freePort();
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${port}`;
  const asking = reply(`${url}/fairlead/v1/status`, url, 60_000);
  await expect(asking).rejects.toThrow(UnreachableError);
  await expect(asking).rejects.toThrow('its answer is over 33554432 bytes');
  expect(sent).toBeLessThan(200);
});

it.each([
  [200, '{"status":"ok"}'],
  [404, '{"message":"Not Found"}'],
  [200, '"ok"'],
  [503, 'null'],
  [200, '{'],
])(
  'a command does not take the JSON of another program for an answer: %d %s',
  async (status, body) => {
    const server = createServer((_, response) => {
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(body);
    });
    const port = await freePort();
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    onTestFinished(() => void server.close());
    const url = `http://127.0.0.1:${port}`;
    const asking = ask(url, 'status', {});
    await expect(asking).rejects.toThrow(UnreachableError);
    await expect(asking).rejects.toThrow(`${url} does not answer like Fairlead: ${status} ${body}`);
  },
);
