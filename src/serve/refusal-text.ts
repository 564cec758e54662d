import type { KernelFailure } from '../kernel/kernel.ts';
import type { RefusedAddress } from '../modes/mode.ts';
import { formatAddress } from '../net/address.ts';

/** Why an address of a Service is not added to our link, as text for logs and events. */
export function refusalText({ address }: Pick<RefusedAddress, 'address'>): string {
  return (
    `${formatAddress(address.bytes)} is an address of this machine: only the Service's ports are ` +
    'served on it'
  );
}

/** The kernel's error text, always with its code. */
export function failureText({ code, message }: KernelFailure): string {
  return message.includes(code) ? message : `${message} (${code})`;
}
