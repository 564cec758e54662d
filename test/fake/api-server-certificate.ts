/**
 * A certificate authority for tests, in memory: no openssl program, no key in the repository, no
 * expiry date to run into. Just enough DER for X.509 v3 with P-256 keys.
 */
import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';
import { isIP } from 'node:net';

export interface Certificate {
  /** PEM. */
  readonly certificate: string;
  /** PEM, PKCS #8. */
  readonly key: string;
}

export interface Authority {
  /** PEM. */
  readonly certificate: string;
  /** For a server when it has host names or IPv4 addresses, else for a client. */
  issue(commonName: string, hosts?: readonly string[]): Certificate;
}

export function createAuthority(commonName = 'fairlead test authority'): Authority {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const issuer = { name: commonName, key: privateKey };
  const extensions = [
    extension('2.5.29.19', sequence(der(0x01, Buffer.of(0xff))), 'critical'),
    // keyCertSign
    extension('2.5.29.15', der(0x03, Buffer.of(2, 0x04)), 'critical'),
  ];
  return {
    certificate: certify(issuer, { name: commonName, key: publicKey, extensions }),
    issue(name, hosts = []) {
      const pair = generateKeyPairSync('ec', { namedCurve: 'P-256' });
      const names = sequence(
        ...hosts.map((host) =>
          isIP(host) === 4
            ? der(0x87, Buffer.from(host.split('.').map(Number)))
            : der(0x82, Buffer.from(host)),
        ),
      );
      const alternatives = hosts.length === 0 ? [] : [extension('2.5.29.17', names)];
      return {
        certificate: certify(issuer, { name, key: pair.publicKey, extensions: alternatives }),
        key: pair.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      };
    },
  };
}

interface Subject {
  readonly name: string;
  readonly key: KeyObject;
  readonly extensions: readonly Buffer[];
}

function certify(issuer: { name: string; key: KeyObject }, subject: Subject): string {
  const algorithm = sequence(oid('1.2.840.10045.4.3.2'));
  const dayMs = 86_400_000;
  const body = sequence(
    der(0xa0, der(0x02, Buffer.of(2))),
    der(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    algorithm,
    distinguishedName(issuer.name),
    sequence(time(Date.now() - dayMs), time(Date.now() + 30 * dayMs)),
    distinguishedName(subject.name),
    subject.key.export({ type: 'spki', format: 'der' }),
    ...(subject.extensions.length === 0 ? [] : [der(0xa3, sequence(...subject.extensions))]),
  );
  const signature = Buffer.concat([Buffer.of(0), sign('sha256', body, issuer.key)]);
  const bytes = sequence(body, algorithm, der(0x03, signature));
  const lines = bytes.toString('base64').match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`;
}

function der(tag: number, content: Buffer): Buffer {
  const { length } = content;
  let size = Buffer.of(length);
  if (length > 0xff) size = Buffer.of(0x82, length >> 8, length & 0xff);
  else if (length > 0x7f) size = Buffer.of(0x81, length);
  return Buffer.concat([Buffer.of(tag), size, content]);
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = [first * 40 + second];
  for (const part of rest) {
    const groups = [part & 0x7f];
    for (let left = part >> 7; left > 0; left >>= 7) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return der(0x06, Buffer.from(bytes));
}

function extension(id: string, value: Buffer, weight?: 'critical'): Buffer {
  const critical = weight === undefined ? [] : [der(0x01, Buffer.of(0xff))];
  return sequence(oid(id), ...critical, der(0x04, value));
}

function distinguishedName(commonName: string): Buffer {
  const attribute = sequence(oid('2.5.4.3'), der(0x0c, Buffer.from(commonName)));
  return sequence(der(0x31, attribute));
}

function time(ms: number): Buffer {
  const text = new Date(ms).toISOString().replace(/[-:T]/g, '').slice(2, 14);
  return der(0x17, Buffer.from(`${text}Z`));
}
