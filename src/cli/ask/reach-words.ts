/** The result of a connection, for people. */
import type { ServiceCheck } from '../../ask/check.ts';

type Tried = ServiceCheck['tried'][number];

/** `no route` */
export function answerWords(answer: Tried['answer']): string {
  return answer.replaceAll('_', ' ');
}

const meanings = {
  connected: '',
  answered: '',
  silent: '',
  refused: 'nothing listens there, or a firewall rejects it',
  timeout: 'no answer: the pod is gone, or a NetworkPolicy or firewall drops it',
  no_route: 'this node has no route to it',
  unreachable: 'its route is "unreachable", or nothing has the address on its link',
  blackhole: 'its route is a blackhole (ip route get)',
  prohibited: 'its route is "prohibit", or a rule of this node forbids it',
  failed: 'see the error with -o json',
} as const satisfies Readonly<Record<Tried['answer'], string>>;

/** What the result means; empty if it is a success. */
export function failureWords(answer: Tried['answer'], what: Tried['what']): string {
  if (what === 'endpoint') return meanings[answer];
  if (answer === 'refused') return 'an endpoint refuses, or the proxy does: see fairlead explain';
  return answer === 'timeout'
    ? 'an endpoint does not answer, or a policy drops it'
    : meanings[answer];
}
