/** The port at which authenticated clients of other machines get answers. */

import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import type { Admit } from '../ask/admission.ts';
import type { Certificate } from '../http/wire.ts';
import type { Routes } from '../reply.ts';
import { type ServeOptions, serve } from '../server.ts';
import { type AccessOptions, ReaderAccess } from './access.ts';

type Server = Omit<ServeOptions, 'certificate' | 'group' | 'handling' | 'routes'>;

interface ReadServerOptions extends AccessOptions {
  readonly nodeName: string;
  readonly server: Server;
  /** The routes of questions, for those whom an Admit lets ask. */
  readonly ask: (admit: Admit) => Routes;
}

/** The longest name of a certificate. */
const nameMax = 64;

/** Until `signal` aborts. Rejects like `serve`. */
export async function serveReaders(
  { ask, nodeName, server, ...options }: ReadServerOptions,
  signal: AbortSignal,
): Promise<void> {
  const access = new ReaderAccess(options);
  const routes = ask(access.admit);
  const handling = Object.fromEntries(Object.keys(routes).map((path) => [path, 'remote'] as const));
  const certificate = selfSigned(nodeName.slice(0, nameMax));
  await serve({ ...server, certificate, group: 'read', handling, routes }, signal).finally(() =>
    access.close(),
  );
}

/** Tags of DER, in which each value is its tag, its length, its bytes. */
const [integer, bitString, oid, utf8String, generalizedTime, sequence, set] = [
  0x02, 0x03, 0x06, 0x0c, 0x18, 0x30, 0x31,
];
const version3 = Buffer.from('a003020102', 'hex');
const ecdsaWithSHA256 = '2a8648ce3d040302';
const commonName = '550403';
/** Bytes of a serial number. */
const serialBytes = 16;

/**
 * A key on curve P-256 and a certificate (X.509, RFC 5280) that it has signed, for this name of at
 * most 64 characters. It is always valid: clocks of nodes may be wrong, and the key ends with the
 * process. node:crypto can sign a certificate, but not write it.
 */
export function selfSigned(name: string): Certificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const serial = randomBytes(serialBytes);
  // Positive, and without a leading byte of zeros.
  serial[0] = (serial[0]! & 0x7f) | 0x40;
  const algorithm = der(sequence, der(oid, Buffer.from(ecdsaWithSHA256, 'hex')));
  const attribute = der(
    sequence,
    der(oid, Buffer.from(commonName, 'hex')),
    der(utf8String, Buffer.from(name)),
  );
  const subject = der(sequence, der(set, attribute));
  const times = ['20200101000000Z', '99991231235959Z'];
  const validity = der(sequence, ...times.map((one) => der(generalizedTime, Buffer.from(one))));
  const keyInfo = publicKey.export({ format: 'der', type: 'spki' });
  const unsigned = der(
    sequence,
    ...[version3, der(integer, serial), algorithm, subject, validity, subject, keyInfo],
  );
  const signature = sign('sha256', unsigned, privateKey);
  const whole = der(sequence, unsigned, algorithm, der(bitString, Buffer.from([0]), signature));
  const lines = whole.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    cert: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----\n'].join('\n'),
    key: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
  };
}

function der(tag: number, ...contents: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(contents);
  const { length } = content;
  const [high, low] = [length >> 8, length & 0xff];
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, low] : [0x82, high, low];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}
