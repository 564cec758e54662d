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

const problem = object({
  reason: field(oneOf(...reasonNames), 'The kind of problem: a stable word.'),
  text: field(text, 'The same in a sentence, with the facts.'),
});

export const problemsSchema = answer('ProblemList', {
  node: field(text, 'The name of the node.'),
  healthy: field(flag, 'Neither the proxy nor a Service has a problem.'),
  proxy: field(list(text), 'The problems of the proxy, as its status has them; in sentences.'),
  remarks: field(list(text), 'What is worth knowing and no problem, as its status has it.'),
  services: field(
    object({
      known: field(count, 'Services that this proxy serves.'),
      withProblems: field(count, 'Those that have problems.'),
    }),
    'Counts of Services.',
  ),
  reasons: field(
    list(
      object({
        reason: field(oneOf(...reasonNames), 'The reason.'),
        services: field(count, 'Services that have it.'),
      }),
    ),
    'The reasons that Services have; a Service may have several.',
  ),
  items: field(
    list(
      object({
        namespace: field(text, 'Namespace of the Service.'),
        name: field(text, 'Its name.'),
        problems: field(list(problem), 'Its problems.'),
      }),
    ),
    'The Services that have problems, by namespace and name.',
  ),
  continue: maybe(text, 'There is another page: the parameter `continue` to ask for it with.'),
});
export type ProblemList = Infer<typeof problemsSchema>;
