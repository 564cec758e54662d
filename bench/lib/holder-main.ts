/**
 * A client whose connections stay open. Arguments: address and port. A line of input is a number of
 * connections to open, one after the other; a line of output for each is the address that answered
 * (what a server of `load serve` sends first), empty where none did.
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';

const [, , host = '', port] = process.argv;

for await (const line of createInterface({ input: process.stdin })) {
  for (let left = Number(line); left > 0; left -= 1) {
    const socket = connect({ host, port: Number(port) });
    const first = await once(socket, 'data').then(
      ([bytes]: Buffer[]) => bytes,
      () => undefined,
    );
    process.stdout.write(`${first === undefined ? '' : [...first].join('.')}\n`);
  }
}
process.exit();
