import { arrayMax, type ColumnForm, Columns, type List, numberAt } from '../net/list.ts';

type Names = readonly string[];

/** No name of a zone contains it. */
const separator = '\n';

/** Three bytes say where the names of an endpoint end. */
const textMax = 2 ** 24 - 1;

/** Where the names of an endpoint end in the text of all names. */
const form: ColumnForm<Names> = {
  width: 3,
  read: (bytes, at, text) => {
    const names = text.slice(at === 0 ? 0 : numberAt(bytes, at - 3, 3), numberAt(bytes, at, 3));
    return names === '' ? [] : names.split(separator);
  },
};

/**
 * The zone hints of endpoints, to keep. Those of a cluster are few lists, which endpoints share. If
 * there are many different ones, they take their text and 3 bytes for each endpoint.
 */
export function hintList(hints: readonly Names[]): List<Names> {
  if (new Set(hints).size <= arrayMax) return hints;
  const texts = hints.map((names) => names.join(separator));
  const text = texts.join('');
  const isPlain = (name: string): boolean => name !== '' && !name.includes(separator);
  if (text.length > textMax || !hints.flat().every(isPlain)) return hints;
  const bytes = Buffer.alloc(hints.length * form.width);
  let end = 0;
  texts.forEach((one, i) => {
    end += one.length;
    bytes.writeUIntBE(end, i * form.width, 3);
  });
  return new Columns(form, bytes, text);
}
