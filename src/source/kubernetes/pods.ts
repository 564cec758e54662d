/** Watches the pods of this node that a label selector chooses. */

import { systemClock } from '../../time/clock.ts';
import { Pacer, readingSliceMs } from '../../time/pacer.ts';
import { type Decoded, open } from '../decode/field-reader.ts';
import { mirrorAnnotation } from '../decode/names.ts';
import { decodeContext, keyOfRaw } from '../decode.ts';
import type { ChosenPod, PodSink, WatchPods } from '../pods.ts';
import { ApiClient } from './client.ts';
import type { ObjectDelivery } from './delivery.ts';
import { json } from './encoding.ts';
import { protobuf } from './protobuf/encoding.ts';
import { StringCache } from './protobuf/string-cache.ts';
import { Reflector, type Target } from './reflector.ts';
import type { KubernetesSourceOptions } from './source.ts';
import { defaultTiming } from './timing.ts';

/** With a separate client: watches that Services depend on never wait for it. */
export function podWatch(options: KubernetesSourceOptions): WatchPods {
  return async (selector, sink, signal) => {
    const onProtobufRefused = (reason: string): void =>
      sink.problem({ subject: 'the API server', field: undefined, reason });
    const client = await ApiClient.open({ ...options, onProtobufRefused });
    const delivery = new PodDelivery(sink);
    const context = decodeContext(options.nodeName);
    const reflector = new Reflector(target(options.nodeName, selector), {
      client,
      delivery,
      encodings: { json, protobuf: protobuf('pods', context, new StringCache()) },
      sink: sinkOf(delivery, sink),
      pacer: new Pacer(systemClock, readingSliceMs),
      timing: { ...defaultTiming, ...options.timing },
    });
    await reflector.run(signal).finally(() => client.close());
  };
}

/** Pods that have ended have no processes. */
function target(nodeName: string, selector: string): Target {
  const fields = [`spec.nodeName=${nodeName}`, 'status.phase!=Succeeded', 'status.phase!=Failed'];
  return {
    resource: 'pods',
    path: '/api/v1/pods',
    query: { labelSelector: selector, fieldSelector: fields.join() },
    // Roles of kube-proxy do not grant it.
    presence: 'optional',
  };
}

/** Without a list, `synced` is called when the resource is not available. */
function sinkOf(delivery: PodDelivery, sink: PodSink) {
  let last = '';
  return {
    problem: (problem: Parameters<PodSink['problem']>[0]) => {
      last = problem.reason;
      sink.problem(problem);
    },
    listed: (attempt: Parameters<PodSink['listed']>[0]) => {
      sink.listed(attempt);
      if (attempt.result === 'complete') delivery.complete();
    },
    synced: () => {
      if (!delivery.isComplete) sink.unavailable(last);
    },
  };
}

class PodDelivery implements ObjectDelivery {
  readonly #sink: PodSink;
  readonly #pods = new Map<string, ChosenPod>();
  #isComplete = false;
  #changes = 0;

  constructor(sink: PodSink) {
    this.#sink = sink;
  }

  get size(): number {
    return this.#pods.size;
  }

  get changes(): number {
    return this.#changes;
  }

  /** There was a complete list. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  complete(): void {
    this.#isComplete = true;
    this.#report();
  }

  has(key: string): boolean {
    return this.#pods.has(key);
  }

  keyOf(raw: unknown): string | undefined {
    return keyOfRaw('pods', raw);
  }

  *decode(raw: unknown): ReturnType<ObjectDelivery['decode']> {
    const decoded = decodeChosenPod(raw);
    yield;
    return () => this.#put(decoded);
  }

  #put({ record, problems }: Decoded<ChosenPod>): string | undefined {
    for (const problem of problems) this.#sink.problem(problem);
    if (record === undefined) return undefined;
    // A pod changes often in ways that do not matter here.
    if (this.#pods.get(record.key)?.id === record.id) return record.key;
    this.#pods.set(record.key, record);
    this.#changed();
    return record.key;
  }

  remove(key: string): void {
    if (this.#pods.delete(key)) this.#changed();
  }

  retain(keys: ReadonlySet<string>): void {
    for (const key of this.#pods.keys()) if (!keys.has(key)) this.remove(key);
  }

  #changed(): void {
    this.#changes += 1;
    this.#report();
  }

  #report(): void {
    if (this.#isComplete) this.#sink.chosen(this.#pods);
  }
}

/**
 * The kubelet's identifier of a static pod is not a UUID, so that an annotation that a user has
 * written cannot name another pod.
 */
const filePodId = /^[0-9a-f]{32}$/;

/** Decodes the fields that the names of a pod's cgroups depend on. */
export function decodeChosenPod(raw: unknown): Decoded<ChosenPod> {
  const { fields, ...opened } = open('Pod', raw, 'namespaced');
  if (opened.id === undefined) return { record: undefined, problems: fields.problems };
  const { annotations, uid } = opened.metadata;
  const field = 'metadata.annotations';
  const mirrored = fields.object(annotations, field)?.[mirrorAnnotation];
  const fileId = fields.text(mirrored, `${field}[${mirrorAnnotation}]`) ?? '';
  const id = filePodId.test(fileId) ? fileId : (fields.text(uid, 'metadata.uid') ?? '');
  return { record: { key: opened.id.key, id }, problems: fields.problems };
}
