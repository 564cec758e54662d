/** All problems on this node: of the proxy and of Services. */
import { reasonNames } from './problem-reasons.ts';
import {
  answer,
  count,
  field,
  flag,
  type Infer,
  list,
  maybe,
  object,
  oneOf,
  text,
} from './schema.ts';

/** The kinds of problems: stable words. */
export const reasonName = oneOf(...reasonNames);

const problem = object({
  reason: field(reasonName),
  text: field(text, 'A sentence with the facts.'),
});

export const problemsSchema = answer('ProblemList', {
  node: field(text),
  healthy: field(flag, 'Neither the proxy nor a Service has a problem.'),
  proxy: field(list(text), '`problems` of its status.'),
  remarks: field(list(text), '`remarks` of its status.'),
  services: field(
    object({
      known: field(count),
      withProblems: field(count),
    }),
  ),
  reasons: field(
    list(
      object({
        reason: field(reasonName),
        services: field(count),
      }),
    ),
    'A Service may have several.',
  ),
  items: field(
    list(
      object({
        namespace: field(text),
        name: field(text),
        problems: field(list(problem)),
      }),
    ),
  ),
  continue: maybe(text),
});
export type ProblemList = Infer<typeof problemsSchema>;
