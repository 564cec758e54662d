/** The list of Services, a hundred on each page, and its search form. */
import type { ServiceList } from '../../ask/service.ts';
import { stateWords } from '../../ask/service-words.ts';
import { type Content, type Html, html } from './html.ts';
import { live, table } from './parts.ts';

type Item = ServiceList['items'][number];

const perPage = 100;
const portsShown = 4;

/** What the reader asks for; empty = no restriction. */
export interface Wanted {
  readonly namespace: string;
  /** Part of a name, or a pattern with `*` and `?`. */
  readonly q: string;
  readonly state: string;
  readonly continue: string;
}

export function wantedOf(query: URLSearchParams): Wanted {
  const of = (name: string): string => query.get(name)?.trim() ?? '';
  return { namespace: of('namespace'), q: of('q'), state: of('state'), continue: of('continue') };
}

/** The parameters of the question to the API. */
export function listQuery({ namespace, q, ...rest }: Wanted): URLSearchParams {
  const name = q === '' || /[*?]/.test(q) ? q : `*${q}*`;
  return queryOf({ namespace, name, ...rest, limit: String(perPage) });
}

function queryOf(fields: Readonly<Record<string, string>>): URLSearchParams {
  return new URLSearchParams(Object.entries(fields).filter(([, value]) => value !== ''));
}

function pathOf(wanted: Partial<Wanted>): string {
  return `/?${queryOf(wanted)}#services`;
}

export function servicesSection(wanted: Wanted, list: ServiceList): Html {
  return html`<h2 id="services">Services</h2>
${searchForm(wanted)}${live('service-list', [servicesTable(list), pages(wanted, list)])}`;
}

/** The search form. It is not a live part, because the reader may be typing in it. */
function searchForm({ namespace, q, state }: Wanted): Html {
  const isAll = namespace === '' && q === '' && state === '';
  const option = (value: string, text: string): Html =>
    html`<option value="${value}"${state === value ? html` selected` : ''}>${text}</option>`;
  return html`<form action="/" role="search" aria-label="Services">
<label>Namespace <input name="namespace" value="${namespace}" autocomplete="off"></label>
<label>Part of the name <input name="q" type="search" value="${q}" autocomplete="off"></label>
<label>State <select name="state">${option('', 'all')}${option('unhealthy', 'with problems')}</select></label>
<button>Show</button>
${isAll ? undefined : html`<a href="/#services">Show all</a>`}
</form>
`;
}

function servicesTable({ items }: ServiceList): Html {
  if (items.length === 0) return html`<p>No Services.</p>`;
  const heads = [
    { name: 'Name' },
    { name: 'Namespace' },
    { name: 'Type', kind: 'later' },
    { name: 'ClusterIP', kind: 'later' },
    { name: 'Ports', kind: 'later' },
    { name: 'Endpoints used', kind: 'number' },
    { name: 'State' },
  ] as const;
  return table('Services', { heads, rows: items.map(row) });
}

function row(item: Item): Content[] {
  const { clusterIPs, endpoints, name, namespace, type, used } = item;
  return [
    html`<a href="${servicePath(namespace, name)}">${name}</a>`,
    html`<a href="${pathOf({ namespace })}">${namespace}</a>`,
    type,
    clusterIPs.join(' '),
    portsText(item),
    `${used} of ${endpoints}`,
    stateOf(item),
  ];
}

export function servicePath(namespace: string, name: string): string {
  return `/?${new URLSearchParams({ service: `${namespace}/${name}` })}`;
}

function portsText({ ports }: Item): string {
  const texts = ports.slice(0, portsShown).map(({ nodePort, port, protocol }) => {
    return `${port}${nodePort === undefined ? '' : `:${nodePort}`}/${protocol}`;
  });
  return [...texts, ...(ports.length > portsShown ? ['…'] : [])].join(' ');
}

function stateOf(item: Item): Content {
  const words = stateWords(item);
  return item.reasons.length === 0 ? words : html`<span class="bad">${words}</span>`;
}

function pages(wanted: Wanted, { continue: next }: ServiceList): Content {
  const links = [
    ...(wanted.continue === ''
      ? []
      : [html`<a href="${pathOf({ ...wanted, continue: '' })}">First page</a> `]),
    ...(next === undefined
      ? []
      : [html`<a href="${pathOf({ ...wanted, continue: next })}" rel="next">Next page</a>`]),
  ];
  return links.length === 0 ? undefined : html`<nav aria-label="Pages of Services">${links}</nav>`;
}
