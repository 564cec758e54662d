import { describe, expect, it } from 'vitest';
import type { Family } from '../../../src/net/address.ts';
import type { FamilyEvent } from '../../../src/sync/events.ts';
import { Verification } from '../../../src/takeover/verification.ts';

const failures = [{ op: undefined, entry: undefined, code: 'ENOMEM', message: 'no memory' }];
const drift = { missing: 1, wrong: 0, unwanted: 0 };

/** Two families, which audit when they are asked to and the test says what comes of it. */
class Scene {
  readonly asked: Family[] = [];
  outcome: 'open' | 'verified' | Error = 'open';
  readonly #verification = new Verification(
    (['IPv4', 'IPv6'] as const).map((family) => ({
      family,
      audit: { verify: () => void this.asked.push(family) },
    })),
  );

  verify(): void {
    this.#verification.verify().then(
      () => {
        this.outcome = 'verified';
      },
      (error: Error) => {
        this.outcome = error;
      },
    );
  }

  async see(...events: readonly FamilyEvent[]): Promise<string> {
    for (const event of events) this.#verification.observe(event);
    await Promise.resolve();
    await Promise.resolve();
    return String(this.outcome);
  }

  stop(): void {
    this.#verification.stop();
  }
}

const started = (family: Family): FamilyEvent => {
  return {
    kind: 'done',
    family,
    purpose: 'start',
    ok: true,
    healthy: true,
    durationMs: 1,
    workMs: 1,
  };
};
const audited = (family: Family): FamilyEvent => ({ kind: 'audited', family, durationMs: 1 });

describe('the verification of the programmed state', () => {
  it('succeeds when an audit of each family found no difference, and everything was in force', async () => {
    const scene = new Scene();
    scene.verify();
    expect(await scene.see(audited('IPv4'), audited('IPv6'))).toBe('open');
    expect(scene.asked).toEqual([]);
    expect(await scene.see(started('IPv4'), audited('IPv4'))).toBe('open');
    expect(await scene.see(started('IPv6'))).toBe('open');
    expect(scene.asked).toEqual(['IPv4', 'IPv6']);
    expect(await scene.see(audited('IPv6'))).toBe('verified');
  });

  it('audits again after a difference', async () => {
    const scene = new Scene();
    await scene.see(started('IPv4'), started('IPv6'));
    scene.verify();
    expect(scene.asked).toEqual(['IPv4', 'IPv6']);
    const found: FamilyEvent = {
      kind: 'drift',
      writers: 'others',
      family: 'IPv4',
      purpose: 'audit',
      drift,
    };
    expect(await scene.see(found, audited('IPv4'), audited('IPv6'))).toBe('open');
    expect(scene.asked).toEqual(['IPv4', 'IPv6', 'IPv4']);
    expect(await scene.see(audited('IPv4'))).toBe('verified');
  });

  it('fails after a failure, until that is repaired', async () => {
    const scene = new Scene();
    await scene.see(started('IPv4'), started('IPv6'));
    const failed = { kind: 'failed', family: 'IPv4', failures } as const;
    await scene.see({ ...failed, purpose: 'changes', retryMs: 100 });
    scene.verify();
    expect(scene.asked).toEqual(['IPv6']);
    expect(await scene.see(audited('IPv4'), audited('IPv6'))).toBe('open');
    const repaired: FamilyEvent = { ...started('IPv4'), purpose: 'recovery' } as FamilyEvent;
    expect(await scene.see(repaired, audited('IPv4'))).toBe('verified');
  });

  it('succeeds regardless of cleanup failures, and of a Service that is set aside', async () => {
    const scene = new Scene();
    await scene.see(started('IPv4'), started('IPv6'));
    const failed = { kind: 'failed', family: 'IPv4', failures } as const;
    await scene.see({ ...failed, purpose: 'deferred', retryMs: 100 });
    await scene.see({ ...failed, purpose: 'changes', retryMs: undefined });
    scene.verify();
    expect(await scene.see(audited('IPv4'), audited('IPv6'))).toBe('verified');
  });

  it('can be repeated, with its own audits', async () => {
    const scene = new Scene();
    await scene.see(started('IPv4'), started('IPv6'));
    scene.verify();
    await scene.see(audited('IPv4'), audited('IPv6'));
    scene.outcome = 'open';
    scene.verify();
    expect(await scene.see(audited('IPv4'))).toBe('open');
    expect(await scene.see(audited('IPv6'))).toBe('verified');
  });

  it('is invalid after the state is programmed again', async () => {
    const scene = new Scene();
    scene.verify();
    scene.stop();
    expect(await scene.see()).toContain('before they were verified');
    scene.outcome = 'open';
    scene.verify();
    expect(await scene.see()).toContain('before they were verified');
  });
});
