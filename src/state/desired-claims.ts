/** The claims that a Service is about to have. */
import { type Claim, type Claimant, nearOf } from './claims.ts';
import { type ClaimKey, claimKey, familyOf, nodePortClaim } from './frontend-key.ts';
import type { NodeSockets } from './node-sockets.ts';
import { noSteps, type Steps } from './steps.ts';
import type { Forwarding, Frontend } from './types.ts';

/** The number of frontends that are added in one step. */
const addedAStep = 256;

/**
 * The claims of a Service. If two of its ports claim the same frontend, the first port gets it.
 * Within a port, `resolve` returns each address once.
 */
export class DesiredClaims {
  readonly claims = new Map<ClaimKey, Claim>();
  /** Frontends that another port of the Service has. */
  readonly duplicates: Frontend[] = [];
  readonly #claimant: Claimant;
  readonly #sockets: NodeSockets;
  /** Those that something may block. */
  readonly #near: ClaimKey[] = [];

  constructor(claimant: Claimant, sockets: NodeSockets) {
    this.#claimant = claimant;
    this.#sockets = sockets;
  }

  addAll(forwardings: readonly Forwarding[]): Steps<undefined> {
    let count = 0;
    for (const { frontends } of forwardings) count += frontends.length;
    if (count >= addedAStep) return this.#addInSteps(forwardings);
    for (const one of forwardings) for (const frontend of one.frontends) this.#add(one, frontend);
    return noSteps;
  }

  *#addInSteps(forwardings: readonly Forwarding[]): Generator<undefined, undefined> {
    let added = 0;
    for (const one of forwardings) {
      for (const frontend of one.frontends) {
        added += 1;
        if (added % addedAStep === 0) yield;
        this.#add(one, frontend);
      }
    }
    return undefined;
  }

  #add({ family, servicePort }: Forwarding, frontend: Frontend): void {
    const claimant = this.#claimant;
    const { protocol } = servicePort;
    const key = claimKey(family, protocol, frontend);
    if (this.claims.has(key)) {
      this.duplicates.push(frontend);
      return;
    }
    const near = nearOf(family, protocol, frontend, this.#sockets);
    if (near !== undefined) this.#near.push(key);
    this.claims.set(key, { claimant, frontend, servicePort, near, lostTo: undefined });
  }

  /** In modes that write a node port for each address, two ports would have the same frontend. */
  leaveNodePorts(): void {
    for (const key of this.#near) {
      const { frontend, servicePort } = this.claims.get(key)!;
      const nodePort = nodePortClaim(familyOf(key), servicePort.protocol, frontend.port);
      const own = this.claims.get(nodePort)?.servicePort ?? servicePort;
      if (own === servicePort) continue;
      this.claims.delete(key);
      this.duplicates.push(frontend);
    }
  }
}
