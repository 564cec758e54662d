/** Makes docs/annotations.md from the table of annotations. */
import { annotationTable } from '../src/source/decode/annotations.ts';
import { code, notice, table } from './markdown.ts';

export function annotationsPage(): string {
  const rows = Object.entries(annotationTable).map(([name, annotation]) => [
    code(name),
    annotation.object,
    annotation.allowed,
    'modes' in annotation ? annotation.modes : 'all',
    annotation.meaning,
  ]);
  return `# Annotations

${notice}

What a Service or an EndpointSlice can ask of Fairlead. Values are text: in YAML, \`on\`, \`off\`
and numbers need quotes. An annotation can be added, changed and removed at any time.

${table(['Annotation', 'Object', 'Value', 'Modes', 'Meaning'], rows)}

A value that is not allowed counts as no annotation. A log line names the object, the annotation
and what is allowed, as does an event \`FieldRejected\` of a Service. The same is reported of a
misspelt name below \`fairlead.io/\`, and of an annotation at the wrong kind of object.
`;
}
