/**
 * The shortest relay that Node.js has: `pipe` in both directions. Arguments: the first port to
 * listen at, the address and the first port of the server, and how many ports.
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';

const [, , first, host, target, count] = process.argv;

for (let i = 0; i < Number(count); i += 1) {
  const server = createServer((client) => {
    const other = connect({ host: host!, port: Number(target) + i });
    client.on('error', () => other.destroy()).on('close', () => other.destroy());
    other.on('error', () => client.destroy()).on('close', () => client.destroy());
    for (const socket of [client, other]) socket.setNoDelay();
    client.pipe(other).pipe(client);
  });
  server.listen({ port: Number(first) + i, backlog: 65_535 });
  await once(server, 'listening');
}
console.log('relaying');
