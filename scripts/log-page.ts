/** Makes docs/logs.md from the table of messages. */
import { type NoticeRow, noticeTable } from '../src/sync/notices.ts';
import { logTopics } from './log-messages.ts';
import { code, table } from './markdown.ts';

export function logPage(): string {
  const topics = Object.entries(logTopics).map(([topic, messages]) => {
    const lines = messages.map(({ action, fields, levels, meaning, message }) => {
      const named = fields === '' ? '' : `: ${fields.split(', ').map(code).join(', ')}`;
      const texts = [`- **${message}** (${levels.join(', ')}${named}).`, meaning, action];
      return texts.filter((text) => text !== '').join(' ');
    });
    return `## ${topic}\n\n${lines.join('\n')}\n`;
  });
  const events = Object.values<NoticeRow>(noticeTable).flatMap(({ event, message }) => {
    if (event === undefined) return [];
    return [[code(event.reason), event.scope === 'node' ? 'its node' : 'the cluster', message]];
  });
  return `# Log messages

<!-- Written by scripts/docs.ts from scripts/log-messages.ts; do not edit. -->

The log goes to standard error: lines of JSON, or text at a terminal (\`--logging-format\`). Each
line has \`time\`, \`level\`, \`msg\` (a message below, with what it means and what to do), and fields.
\`-v=0\` logs info and above, \`-v=2\` debug, \`-v=4\` trace. With \`enableProfiling\`,
\`PUT /debug/flags/v\` changes it in a running process.

- \`err\`: the reason in words, with the kernel's error code. \`service\`: \`namespace/name\`.
- Names that end in \`Ms\`: milliseconds. \`retryMs\`: the time until the next attempt.
- \`purpose\`, why the kernel was written or read: \`start\`, \`changes\`, \`recovery\` (after a
  failure), \`audit\` (periodic comparison), \`deferred\` and \`sweep\` (deletions that had to wait).
- Where the text does not say otherwise, Services work.

${topics.join('\n')}
## Messages about Services that are also Events

An Event that is true of the whole cluster is written once for all nodes.

${table(['Event', 'True of', 'Message'], events)}
`;
}
