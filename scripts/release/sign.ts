/** Signatures as cosign makes and verifies them: ECDSA with P-256 and SHA-256, in base64. */
import { createPrivateKey, createPublicKey, type KeyObject, sign } from 'node:crypto';

export class Signer {
  readonly #key: KeyObject;

  /** Takes a PEM file with a private key. Throws for a key of another kind, or an encrypted one. */
  constructor(pem: string) {
    if (/ENCRYPTED (SIGSTORE|COSIGN)/.test(pem)) {
      throw new Error("the key is encrypted in cosign's own form: give an unencrypted PEM key");
    }
    this.#key = createPrivateKey(pem);
    const { namedCurve } = this.#key.asymmetricKeyDetails ?? {};
    if (this.#key.asymmetricKeyType !== 'ec' || namedCurve !== 'prime256v1') {
      throw new Error('the key is not an ECDSA key of curve P-256');
    }
  }

  /** The public key in PEM, as in cosign.pub. */
  get publicKey(): string {
    return createPublicKey(this.#key).export({ type: 'spki', format: 'pem' }).toString();
  }

  /** The signature of a blob, for `cosign verify-blob --signature`. */
  sign(content: Uint8Array): string {
    return sign('sha256', content, this.#key).toString('base64');
  }

  /** A DSSE envelope with an in-toto statement, for `cosign verify-blob-attestation`. */
  envelope(statement: string): string {
    const payloadType = 'application/vnd.in-toto+json';
    const length = Buffer.byteLength(statement);
    const encoded = `DSSEv1 ${payloadType.length} ${payloadType} ${length} ${statement}`;
    const payload = Buffer.from(statement).toString('base64');
    const sig = this.sign(Buffer.from(encoded));
    return `${JSON.stringify({ payloadType, payload, signatures: [{ keyid: '', sig }] })}\n`;
  }
}

/** What cosign signs of an image, for `cosign attach signature --payload`. */
export function imagePayload(repository: string, digest: string): string {
  return JSON.stringify({
    critical: {
      identity: { 'docker-reference': repository },
      image: { 'docker-manifest-digest': digest },
      type: 'cosign container image signature',
    },
    optional: null,
  });
}
