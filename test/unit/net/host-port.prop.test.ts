import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatEndpoint, parseAddress } from '../../../src/net/address.ts';
import { parseEndpoint } from '../../../src/net/host-port.ts';

const addresses = fc.oneof(fc.ipV4(), fc.ipV6()).map((text) => parseAddress(text)!);

it('an endpoint is read back from its text', () =>
  fc.assert(
    fc.property(addresses, fc.integer({ min: 0, max: 65_535 }), (address, port) => {
      expect(parseEndpoint(formatEndpoint(address.bytes, port))).toEqual({ address, port });
    }),
  ));

it.each(['', '10.0.0.1', '10.0.0.1:80:80', '[::1]', 'web:80', '::1:80'])(
  'the text "%s" is no endpoint',
  (text) => expect(parseEndpoint(text)).toBeUndefined(),
);
