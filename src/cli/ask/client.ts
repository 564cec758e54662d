/** Sends questions to the running process of this node. */
import type { Answer, EndpointName, QueryName } from '../../ask/endpoints.ts';
import { apiVersion, isPassedOn, pathOf } from '../../ask/paths.ts';
import { readBody } from '../../source/kubernetes/json-body.ts';
import { RefusedError, UnreachableError } from '../errors.ts';

const patienceMs = 10_000;
/** No answer is as long: another program may have the port. */
const bodyBytesMax = 32 * 1024 * 1024;

export type Query<Name extends EndpointName> = { readonly [K in QueryName<Name>]?: string };

/** Rejects with an UnreachableError or a RefusedError. */
export async function ask<Name extends EndpointName>(
  server: string,
  name: Name,
  query: Query<Name>,
  timeoutMs = patienceMs,
): Promise<Answer<Name>> {
  const given = new URLSearchParams(Object.entries(query) as [string, string][]);
  // The addon and node:crypto take 6 MB, and few questions need them.
  const proof = isPassedOn(query) ? (await import('../../host/asker.ts')).openProof() : undefined;
  if (proof !== undefined) given.set('proof', proof.name);
  const url = `${server}${pathOf(name)}?${given}`;
  const { body, isJson, status } = await reply(url, server, timeoutMs).finally(proof?.close);
  const answer = isJson ? fieldsIn(body) : {};
  if (status === 200 && answer.apiVersion === apiVersion) return answer as Answer<Name>;
  if (status === 200 || typeof answer.error !== 'string') {
    const words = `${status} ${body.slice(0, 100).trim()}`;
    throw new UnreachableError(`${server} does not answer like Fairlead: ${words}`);
  }
  const isWrong = status === 400 || answer.candidates !== undefined;
  throw new RefusedError(answer.error, status, isWrong);
}

/** As `ask`, with the items of all pages. */
export async function askPages<Name extends EndpointName>(
  server: string,
  name: Name,
  query: Query<Name>,
): Promise<Answer<Name>> {
  const { continue: first, ...answer }: Page = await ask(server, name, query);
  const pages = [answer.items ?? []];
  for (let last = first; last !== undefined; ) {
    const page: Page = await ask(server, name, { ...query, continue: last });
    pages.push(page.items ?? []);
    last = page.continue;
  }
  return { ...answer, ...(answer.items && { items: pages.flat() }) } as Answer<Name>;
}

/** What the answers have of which there may be several pages. */
interface Page {
  readonly kind: string;
  readonly continue?: string | undefined;
  readonly items?: readonly unknown[];
}

/** Empty if it is not an object. */
function fieldsIn(body: string): Readonly<Record<string, unknown>> {
  try {
    return { ...JSON.parse(body) };
  } catch {
    return {};
  }
}

interface Reply {
  readonly status: number;
  readonly isJson: boolean;
  readonly body: string;
}

/**
 * Rejects with an UnreachableError. It uses neither `fetch` nor a module import of node:http: both
 * load all of undici, which takes 15 MB and as long as the rest of a command.
 */
export async function reply(url: string, server: string, timeoutMs: number): Promise<Reply> {
  const { get } = process.getBuiltinModule('node:http');
  try {
    return await new Promise<Reply>((resolve, reject) => {
      const signal = AbortSignal.timeout(timeoutMs);
      const request = get(url, { signal, agent: false }, (response) => {
        const { headers, statusCode: status = 0 } = response;
        const isJson = headers['content-type'] === 'application/json';
        readBody(response, bodyBytesMax).then(
          (body) => resolve({ status, isJson, body: body.toString('utf8') }),
          reject,
        );
      });
      request.on('error', reject);
    });
  } catch (error) {
    const { cause = error } = error as Error;
    const { message, name } = cause as Error;
    const reason = name === 'TimeoutError' ? `no answer within ${timeoutMs / 1000} s` : message;
    throw new UnreachableError(`cannot reach ${server}: ${reason}`);
  }
}
