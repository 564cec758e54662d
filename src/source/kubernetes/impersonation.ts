/** The user whom requests impersonate: `as` and related fields of a kubeconfig. */
import type { FieldReader, RawObject } from '../decode/field-reader.ts';

/** Headers of a request. Several values are sent as several lines. */
export type Headers = Readonly<Record<string, string | readonly string[]>>;

const none: Headers = Object.freeze({});

/** The headers that client-go sends for this user. Problems go to `fields`. */
export function impersonationHeaders(fields: FieldReader, user: RawObject): Headers {
  const name = fields.text(user.as, 'as') ?? '';
  const uid = fields.text(user['as-uid'], 'as-uid') ?? '';
  const groups = textList(fields, user['as-groups'], 'as-groups');
  const extra = extraHeaders(fields, user['as-user-extra']);
  if (name === '') {
    // The words of client-go (tools/clientcmd/validation.go).
    const isAsked = uid !== '' || groups.length > 0 || Object.keys(extra).length > 0;
    if (isAsked) {
      fields.refuse(
        'as',
        'is missing: requesting uid, groups or user-extra without impersonating a user',
      );
    }
    return none;
  }
  return {
    'impersonate-user': headerValue(fields, 'as', name),
    ...(uid === '' ? {} : { 'impersonate-uid': headerValue(fields, 'as-uid', uid) }),
    ...(groups.length === 0 ? {} : { 'impersonate-group': groups }),
    ...extra,
  };
}

function extraHeaders(fields: FieldReader, value: unknown): Headers {
  const extra = fields.object(value, 'as-user-extra') ?? {};
  const entries = Object.entries(extra).map(([key, values]) => {
    return [headerOf(key), textList(fields, values, `as-user-extra[${key}]`)] as const;
  });
  return Object.fromEntries(entries.filter(([, values]) => values.length > 0));
}

function textList(fields: FieldReader, value: unknown, field: string): string[] {
  return fields.list(value, field).flatMap((one, i) => {
    const text = fields.text(one, `${field}[${i}]`);
    return text === undefined ? [] : [headerValue(fields, `${field}[${i}]`, text)];
  });
}

/** Bytes that the name of a header may contain, except `%`, which begins an escape. */
const plainKeyByte = /[!#$&'*+\-.0-9A-Z^_`a-z|~]/;

/** As client-go escapes it: other bytes are percent-encoded. */
function headerOf(key: string): string {
  const bytes = [...Buffer.from(key)].map((byte) => {
    const character = String.fromCharCode(byte);
    if (byte < 0x80 && plainKeyByte.test(character)) return character;
    return `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  });
  return `impersonate-extra-${bytes.join('')}`;
}

/** UTF-8, which Node sends byte by byte only as Latin-1. */
function headerValue(fields: FieldReader, field: string, text: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: those are what a header cannot hold
  if (/[\u0000-\u0008\u000a-\u001f\u007f]/.test(text)) {
    fields.refuse(field, 'contains a control character, which a header must not');
  }
  return Buffer.from(text).toString('latin1');
}
