/** The steps of an explanation, and which of them an event of a packet matches. */
import type { Explanation } from '../../ask/explanation.ts';
import { familyWord } from '../../kernel/nft/words.ts';
import type { TraceEvent } from './headers.ts';
import type { Rule } from './ruleset.ts';

type Step = Explanation['steps'][number];

/** The kernel object of a step: `map ip fairlead services { … }`, `-t nat -A KUBE-… -j …`. */
interface Place {
  /** `ip fairlead`; for iptables the table without its family. */
  readonly table: string;
  readonly kind: 'chain' | 'set';
  readonly name: string;
  /** The chain or target to which one of its rules leads. */
  readonly target: string | undefined;
}

export class Explained {
  readonly #steps: readonly Step[];
  readonly #shown = new Set<Step>();

  constructor(steps: readonly Step[]) {
    this.#steps = steps;
  }

  /** The step that the event matches, with the following steps that have no kernel object. */
  take(event: TraceEvent, rule: Rule | undefined): readonly Step[] {
    return this.#from(
      this.#steps.find((step) => !this.#shown.has(step) && shows(event, rule, step)),
    );
  }

  /** The next step that IPVS performs, which has no rules. */
  takeIPVS(): readonly Step[] {
    const isIt = ({ object }: Step): boolean => object?.startsWith('ipvsadm ') ?? false;
    return this.#from(this.#steps.findLast((step) => !this.#shown.has(step) && isIt(step)));
  }

  /** What becomes of later packets of the connection, which the traced packet cannot show. */
  takeLater(): readonly Step[] {
    const isIt = ({ object }: Step): boolean => object?.startsWith('flowtable ') ?? false;
    return this.#from(this.#steps.find((step) => !this.#shown.has(step) && isIt(step)));
  }

  #from(step: Step | undefined): readonly Step[] {
    if (step === undefined) return [];
    const after = this.#steps.slice(this.#steps.indexOf(step) + 1);
    const next = after.findIndex(({ object }) => object !== undefined);
    const steps = [step, ...(next < 0 ? after : after.slice(0, next))];
    for (const one of steps) this.#shown.add(one);
    return steps;
  }
}

function shows(event: TraceEvent, rule: Rule | undefined, { object = '' }: Step): boolean {
  const place = whereIs(object);
  if (place === undefined) return false;
  const isHere =
    place.table === event.table || place.table === `${familyWord(event.family)} ${event.table}`;
  if (!isHere) return false;
  if (place.kind === 'set') return rule !== undefined && setsOf(rule).includes(place.name);
  if (place.name !== event.chain) return false;
  return place.target === undefined || [event.target, targetOf(rule)].includes(place.target);
}

function whereIs(object: string): Place | undefined {
  const [, kind, table, name] = /^(chain|map|set) (\S+ \S+) (\S+)/.exec(object) ?? [];
  if (kind !== undefined) {
    return {
      table: table!,
      kind: kind === 'chain' ? 'chain' : 'set',
      name: name!,
      target: undefined,
    };
  }
  const [, ofXt, chain] = /^-t (\S+) (?:-A )?([^\s,]+)/.exec(object) ?? [];
  if (ofXt === undefined) return undefined;
  const [, target] = / -j (\S+)$/.exec(object) ?? [];
  return { table: ofXt, kind: 'chain', name: chain!, target };
}

function setsOf({ clauses }: Rule): string[] {
  return clauses.flatMap((one) => ('set' in one ? [one.set] : []));
}

/** `REJECT` */
function targetOf(rule: Rule | undefined): string | undefined {
  const target = rule?.clauses.find((one) => one.kind === 'target');
  return target?.kind === 'target' ? target.name : undefined;
}
