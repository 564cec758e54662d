import { isDeepStrictEqual } from 'node:util';
import { keyOfChange } from '../../../src/source/decode.ts';
import type { ListAttempt, SourceProblem, SourceSink } from '../../../src/source/source.ts';
import type { Change, Resource, Taken } from '../../../src/state/change.ts';

/** A sink that keeps what it receives, as a store would. */
export class Recorder implements SourceSink {
  readonly changes: Change[] = [];
  readonly problems: SourceProblem[] = [];
  readonly lists: ListAttempt[] = [];
  readonly syncedResources: Resource[] = [];
  /** What is there now, by `kind namespace/name`. */
  readonly state = new Map<string, Change>();

  change(change: Change): Taken {
    this.changes.push(change);
    const id = identify(change);
    if (change.kind.endsWith('-gone')) return this.state.delete(id) ? 'changed' : 'same';
    const isKnown = isDeepStrictEqual(this.state.get(id), change);
    this.state.set(id, change);
    return isKnown ? 'same' : 'changed';
  }

  synced(resource: Resource): void {
    this.syncedResources.push(resource);
  }

  problem(problem: SourceProblem): void {
    this.problems.push(problem);
  }

  listed(attempt: ListAttempt): void {
    this.lists.push(attempt);
  }

  /** `kind namespace/name` of everything there, sorted. */
  names(): string[] {
    return [...this.state.keys()].sort();
  }

  /** Problems as `subject: field reason`. */
  said(): string[] {
    return this.problems.map(({ subject, field, reason }) =>
      [`${subject}:`, field, reason].filter((part) => part !== undefined).join(' '),
    );
  }
}

function identify(change: Change): string {
  return `${change.kind.replace(/-gone$/, '')} ${keyOfChange(change)}`;
}
