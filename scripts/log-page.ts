/** Makes docs/logs.md from the table of messages. */
import { type NoticeRow, noticeTable } from '../src/sync/notices.ts';
import { logTopics } from './log-messages.ts';
import { code, table } from './markdown.ts';

export function logPage(): string {
  const head = ['Message', 'Level', 'Fields', 'Meaning', 'What to do'];
  const topics = Object.entries(logTopics).map(([topic, messages]) => {
    const rows = messages.map(({ action, fields, levels, meaning, message }) => [
      message,
      levels.join(', '),
      fields === '' ? '' : fields.split(', ').map(code).join(', '),
      meaning,
      action,
    ]);
    return `## ${topic}\n\n${table(head, rows)}\n`;
  });
  const events = Object.values<NoticeRow>(noticeTable).flatMap(({ event, message }) => {
    if (event === undefined) return [];
    return [[code(event.reason), event.scope === 'node' ? 'its node' : 'the cluster', message]];
  });
  return `# Log messages

<!-- Written by scripts/docs.ts from scripts/log-messages.ts; do not edit. -->

The log goes to standard error: lines of JSON, or text at a terminal (\`--logging-format\`). Each line has \`time\`, \`level\`, \`msg\`, which is one of the
messages below, and fields. \`-v=0\` logs info and above, \`-v=2\` debug, \`-v=4\` trace; \`PUT /debug/flags/v\` changes it in a running process, with \`enableProfiling\`.

- \`service\` is \`namespace/name\`; \`err\` has the reason in words, with the kernel's error code where it was the kernel.
- Names that end in \`Ms\` are milliseconds; \`retryMs\`: when it is tried again.
- \`purpose\` is why the kernel was written or read: \`start\`, \`changes\`, \`recovery\` (after a failure), \`audit\` (periodic
  comparison), \`deferred\` and \`sweep\` (deletions that had to wait).

${topics.join('\n')}
## Messages about Services that are also Events

An Event that is true of the whole cluster is written once for all nodes.

${table(['Event', 'True of', 'Message'], events)}
`;
}
