/** Describes what happened to a packet, in the words of `fairlead explain` where they match. */
import type { Trace } from '../../ask/trace.ts';
import { chainText, ruleText } from '../../kernel/nft/print-rule.ts';
import { hookWord } from '../../kernel/nft/words.ts';
import { isUntracking } from '../../kernel/xt/untracking.ts';
import type { Explained } from './explained.ts';
import { destinationText, type Headers, sourceText, type TraceEvent } from './headers.ts';
import { isBeginning, isOfTrace } from './marking-table.ts';
import type { Packet, Visit } from './packets.ts';
import type { FindFault } from './routing-fault.ts';
import type { Rule, Ruleset } from './ruleset.ts';

type TracePacket = Trace['packets'][number];
type Step = TracePacket['steps'][number];
type PacketDescription = Pick<TracePacket, 'outcome' | 'because' | 'destination' | 'steps'>;

interface Stage {
  readonly ruleset: Ruleset;
  readonly explained: Explained;
  readonly interfaceName: (index: number) => string;
  readonly findFault: FindFault;
}

/** The last event of a chain. */
interface Deciding {
  readonly event: TraceEvent;
  readonly rule: Rule | undefined;
  /** A step of the explanation has described what the chain does. */
  readonly isExplained: boolean;
}

/** Rejects with KernelError. */
export function describePacket(packet: Packet, stage: Stage): Promise<PacketDescription> {
  return new PacketDescriber(packet, stage).describe();
}

class PacketDescriber {
  readonly #packet: Packet;
  readonly #stage: Stage;
  readonly #steps: Step[] = [];
  /** The current hook of the packet, and the chains there that it has passed. */
  #hook = '';
  #passed: string[] = [];
  /** The rule of another program that changed its destination. */
  #diverter: string | undefined;
  /** The rule that keeps it from connection tracking, without which nothing is translated. */
  #untracking: string | undefined;

  constructor(packet: Packet, stage: Stage) {
    this.#packet = packet;
    this.#stage = stage;
  }

  async describe(): Promise<PacketDescription> {
    const { headers, visits } = this.#packet;
    this.#say(this.#arrival());
    for (const [i, visit] of visits.entries()) {
      const hook = await this.#hookOf(visit);
      if (hook !== this.#hook) this.#leaveHook();
      this.#hook = hook;
      const next = visits[i + 1];
      const end = await this.#visit(visit, next);
      if (end !== undefined) return this.#end(end.outcome, end.because);
    }
    this.#leaveHook();
    const last = visits.at(-1)!;
    const ending = await this.#ending(last);
    this.#say(ending.step);
    if (ending.isLost) return this.#end('lost', ending.step);
    const to = destinationText(last.headers ?? headers);
    if (to === destinationText(headers)) {
      const why = this.#untracking
        ? `It is exempted from connection tracking, and so from translation, by ${this.#untracking}`
        : 'No rule translated it';
      return this.#end('untranslated', `${why}: it went to ${to}, as it was sent.`);
    }
    if (this.#diverter !== undefined) {
      const because = `It went to ${to}, by a rule of another program: ${this.#diverter}.`;
      return this.#end('diverted', because);
    }
    if (this.#hook === 'postrouting' && visits[0]!.inputInterface !== 0) {
      for (const { object, text } of this.#stage.explained.takeLater()) this.#say(text, object);
    }
    return this.#end('endpoint', `It went to ${to}.`);
  }

  #arrival(): string {
    const { headers, visits } = this.#packet;
    const { inputInterface } = visits[0]!;
    const from = sourceText(headers);
    if (inputInterface === 0) return `This node sends it, from ${from}.`;
    return `It comes in by ${this.#stage.interfaceName(inputInterface)}, from ${from}.`;
  }

  async #hookOf({ chain, events, family, table }: Visit): Promise<string> {
    const found = await this.#stage.ruleset.chain({ family, table, chain });
    // If the chain was deleted in the meantime, the packet counts as still in the previous hook.
    return found === undefined ? this.#hook : hookWord(events[0]!.family, found.hook);
  }

  /** What the chains did; a result = the packet's path ended. */
  async #visit(
    visit: Visit,
    next: Visit | undefined,
  ): Promise<Pick<PacketDescription, 'outcome' | 'because'> | undefined> {
    const isOurs = isOfTrace(visit.table);
    if (visit.ending === 'dropped') this.#leaveHook();
    let last: Deciding | undefined;
    let isExplained = false;
    for (const event of isOurs ? [] : visit.events) {
      const rule = event.rule === 0 ? undefined : await this.#rule(event);
      const steps = event.rule === 0 ? [] : this.#stage.explained.take(event, rule);
      for (const { object, text } of steps) {
        const place = object && `${object} (rule ${event.rule} of chain ${chainText(event)})`;
        this.#say(text, place);
      }
      isExplained ||= steps.length > 0;
      if (rule?.clauses.some(isUntracking)) this.#untracking = placeOfRule(event, rule);
      last = { event, rule, isExplained };
    }
    if (visit.ending === 'dropped') return this.#refusal(last!);
    if (visit.ending === 'queued' && next === undefined) {
      const place = placeOfRule(last!.event, last!.rule);
      this.#say('A program gets it (queue), and has not given it back yet.', place);
      return { outcome: 'lost', because: `${place} gave it to a program.` };
    }
    this.#changed(visit, next, last);
    if (!isOurs) this.#passed.push(chainText(visit));
    return undefined;
  }

  #rule(event: TraceEvent): Promise<Rule | undefined> {
    return this.#stage.ruleset.rule(event, event.rule);
  }

  #refusal({ event, isExplained, rule }: Deciding): Pick<PacketDescription, 'outcome' | 'because'> {
    const outcome = refuses(rule) ? 'rejected' : 'dropped';
    const place = placeOfRule(event, rule);
    const hook = `in hook ${this.#hook}`;
    if (event.rule === 0) {
      const text = `The packet is dropped ${hook}: no rule of the chain accepts it, and its policy is drop.`;
      this.#say(text, `chain ${chainText(event)}`);
      return { outcome, because: `The policy of chain ${chainText(event)} drops it.` };
    }
    if (!isExplained) this.#say(`The packet is ${outcome} ${hook}.`, place);
    return { outcome, because: `It is ${outcome} by ${place}.` };
  }

  /** The changes of its addresses between this chain and the next one. */
  #changed({ headers, ending }: Visit, next: Visit | undefined, last: Deciding | undefined): void {
    const change = next?.headers && headers && changeOf(headers, next.headers);
    if (change === undefined) return;
    const isByRule = last !== undefined && last.event.rule !== 0 && ending === 'accepted';
    if (isByRule) {
      const place = placeOfRule(last.event, last.rule);
      const isElsewhere = destinationText(headers!) !== destinationText(next!.headers!);
      // The last change decides.
      if (isElsewhere) this.#diverter = isOfServices(last.event) ? undefined : place;
      this.#say(change, place);
    } else if (this.#hook === 'input') {
      // IPVS takes packets there, and sends them on through output.
      this.#leaveHook();
      for (const { object, text } of this.#stage.explained.takeIPVS()) this.#say(text, object);
      this.#say(`IPVS has it. ${change}`);
    } else {
      this.#say(`Connection tracking knows the connection. ${change}`);
    }
  }

  /** The outcome if nothing refused it. */
  async #ending({ chain, headers, outputInterface, table }: Visit): Promise<{
    readonly step: string;
    readonly isLost: boolean;
  }> {
    const isThrough = isOfTrace(table) && !isBeginning(chain);
    const hook = this.#hook;
    if (isThrough && hook === 'postrouting') {
      const by = this.#stage.interfaceName(outputInterface);
      const { destination, source } = textsOf(headers ?? this.#packet.headers);
      return { step: `It leaves by ${by}, from ${source} to ${destination}.`, isLost: false };
    }
    if (isThrough && hook === 'input') {
      const { destination } = textsOf(headers ?? this.#packet.headers);
      return { step: `It is delivered on this node, to ${destination}.`, isLost: false };
    }
    const step = isThrough
      ? `It got through hook ${hook}, and no further: ${await this.#fault()}.`
      : `It vanished in hook ${hook}, by something that has no rules in nf_tables.`;
    return { step, isLost: true };
  }

  #fault(): Promise<string> {
    const { headers, visits } = this.#packet;
    const { inputInterface } = visits[0]!;
    const { destination } = visits.findLast((visit) => visit.headers)?.headers ?? headers;
    const name = inputInterface === 0 ? undefined : this.#stage.interfaceName(inputInterface);
    const family = headers.source.length === 4 ? 'IPv4' : 'IPv6';
    return this.#stage.findFault({ family, interface: name, source: headers.source, destination });
  }

  #leaveHook(): void {
    if (this.#passed.length === 0) return;
    const chains = this.#passed.length === 1 ? 'chain' : 'chains';
    this.#say(`It passes hook ${this.#hook}: ${chains} ${this.#passed.join(', ')}.`);
    this.#passed = [];
  }

  #say(text: string, object?: string): void {
    this.#steps.push(object === undefined ? { text } : { text, object });
  }

  #end(outcome: PacketDescription['outcome'], because: string): PacketDescription {
    const { headers, visits } = this.#packet;
    const last = visits.findLast((visit) => visit.headers !== undefined)?.headers ?? headers;
    return { outcome, because, destination: destinationText(last), steps: this.#steps };
  }
}

/** Whether the rule is of Services: this proxy's, or kube-proxy's. */
export function isOfServices({ chain, table }: TraceEvent): boolean {
  return table.startsWith('fairlead') || table === 'kube-proxy' || chain.startsWith('KUBE-');
}

function textsOf(headers: Headers) {
  return { source: sourceText(headers), destination: destinationText(headers) };
}

/** Undefined: the addresses are the same. */
function changeOf(before: Headers, after: Headers): string | undefined {
  const [a, b] = [textsOf(before), textsOf(after)];
  const parts = [
    a.destination === b.destination ? '' : `goes to ${b.destination}`,
    a.source === b.source ? '' : `comes from ${b.source}`,
  ].filter((part) => part !== '');
  return parts.length === 0 ? undefined : `It ${parts.join(' and ')} now.`;
}

/** `rule 12 of chain inet firewalld filter_FORWARD: tcp dport 8080 drop` */
function placeOfRule(event: TraceEvent, rule: Rule | undefined): string {
  const text = rule === undefined ? '' : ruleText(event.family, rule.bytes);
  const comment = rule === undefined || rule.comment === '' ? '' : ` "${rule.comment}"`;
  const place = `rule ${event.rule} of chain ${chainText(event)}`;
  return text === '' ? place : `${place}: ${text}${comment}`;
}

/** Whether it answers with an error, which the kernel reports as a drop. */
function refuses(rule: Rule | undefined): boolean {
  return (
    rule?.clauses.some(
      (one) => one.kind === 'reject' || (one.kind === 'target' && one.name === 'REJECT'),
    ) ?? false
  );
}
