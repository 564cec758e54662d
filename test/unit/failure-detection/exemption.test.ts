/** Who writes EndpointSlices cannot make the node connect to itself, nor to other Services. */
import { expect, it } from 'vitest';
import { exemption } from '../../../src/failure-detection/ports.ts';
import { address, cidr } from '../state/build.ts';

const own = [address('192.0.2.1'), address('2001:db8::1')];
const services = [cidr('10.96.0.0/12'), cidr('fd00:96::/108')];

it.each([
  ['10.244.0.5', undefined],
  ['2001:db8::2', undefined],
  ['127.0.0.1', 'it is a loopback address'],
  ['169.254.169.254', 'it is a link-local address'],
  ['fe80::1', 'it is a link-local address'],
  ['224.0.0.1', 'it is a multicast address'],
  ['::1', 'it is a loopback address'],
  ['0.0.0.0', 'it is the unspecified address'],
  ['192.0.2.1', 'it is an address of this node'],
  ['2001:db8::1', 'it is an address of this node'],
  ['10.96.0.1', 'it is in a ServiceCIDR'],
  ['fd00:96::a', 'it is in a ServiceCIDR'],
])('of %s: %s', (text, reason) => {
  const blocks = services.filter((one) => one.address.family === address(text).family);
  expect(exemption(address(text), own, blocks)).toBe(reason);
});
