import { once } from 'node:events';
import { get, type IncomingMessage } from 'node:http';
import { expect, it } from 'vitest';
import { parseAddress } from '../../../src/net/address.ts';
import { FakeApiServer } from '../../fake/api-server.ts';
import {
  endpointAddress,
  populate,
  replaceEndpoints,
  serviceAddress,
} from '../../fake/api-server-cluster.ts';
import { keepBytes, protobufForm } from '../../fake/api-server-form.ts';
import { FakeStore, kinds } from '../../fake/api-server-store.ts';

it('the fake API server assigns unique addresses to Services and endpoints, beyond 65,536 of them', () => {
  const services = [0, 1, 255, 256, 65_535, 65_536, 65_537, 65_792, 99_999];
  const addresses = (['IPv4', 'IPv6'] as const).flatMap((family) =>
    services.flatMap((i) => [
      serviceAddress(family, i),
      ...[0, 1, 253].map((j) => endpointAddress(family, i, j)),
    ]),
  );
  expect(new Set(addresses.map(numberOf)).size).toBe(addresses.length);
});

/** The address as a number. Throws if the text is not an address. */
function numberOf(text: string): bigint {
  const address = parseAddress(text);
  if (address === undefined) throw new Error(`${text} is no address`);
  return BigInt(`0x${Buffer.from(address.bytes).toString('hex')}`);
}

it('the fake API server sends edited slices in protobuf as if they were encoded again', () => {
  const store = new FakeStore();
  populate(store, { services: 3, endpoints: 4 });
  let same = 0;
  store.onEvent = (resource, event) => {
    const after = event.after!;
    keepBytes(event);
    const sent = protobufForm.event('MODIFIED', resource, after.json, after);
    expect(sent).toEqual(protobufForm.event('MODIFIED', resource, after.json));
    same += 1;
  };
  replaceEndpoints(store, 300);
  expect(same).toBe(300);
});

it('the fake API server drops pending data of a client that disconnects', async () => {
  const server = new FakeApiServer();
  await server.listen();
  try {
    populate(server.store, { services: 500, endpoints: 50 });
    const request = get(`${server.url}${kinds.endpointslices.path}?watch=true`);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    response.on('error', () => {});
    for (let i = 0; i < 20; i += 1) replaceEndpoints(server.store, 500);
    let isDrained = false;
    const drained = server.drained().then(() => {
      isDrained = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(isDrained).toBe(false);
    request.destroy();
    await drained;
  } finally {
    await server.close();
  }
});
