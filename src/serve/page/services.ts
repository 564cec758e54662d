/** The list of Services, a hundred on each page, and its search form. */
import type { ServiceList } from '../../ask/service.ts';
import type { Table } from '../../ask/view.ts';
import { servicesTable } from '../../ask/views/service.ts';
import type { Traffic } from '../service-counters.ts';
import { type Content, type Html, html } from './html.ts';
import { aSecond, live, servicesPath, table } from './parts.ts';

const perPage = 100;

/** The reader's filter; empty = no restriction. */
interface ServiceFilter {
  readonly namespace: string;
  /** Part of a name, or a pattern with `*` and `?`. */
  readonly q: string;
  readonly state: string;
  readonly continue: string;
}

export function filterOf(query: URLSearchParams): ServiceFilter {
  const of = (name: string): string => query.get(name)?.trim() ?? '';
  return { namespace: of('namespace'), q: of('q'), state: of('state'), continue: of('continue') };
}

/** The parameters of the question to the API. */
export function listQuery({ namespace, q, ...rest }: ServiceFilter): URLSearchParams {
  const name = q === '' || /[*?]/.test(q) ? q : `*${q}*`;
  const fields = Object.entries({
    ...{ namespace, name, ...rest },
    ...{ order: 'problems', limit: String(perPage) },
  });
  return new URLSearchParams(fields.filter(([, value]) => value !== ''));
}

/** `traffic`: what is counted; undefined: nothing is. */
export function servicesSection(
  filter: ServiceFilter,
  list: ServiceList,
  traffic: Traffic | undefined,
  nowMs: number,
): Html {
  const none = html`<p>No Services.</p>`;
  const shown = list.items.length === 0 ? none : table(listTable(list, traffic), nowMs);
  return html`<h2 id="services">Services</h2>
${searchForm(filter)}${live('service-list', [shown, pages(filter, list)])}`;
}

function listTable(list: ServiceList, traffic: Traffic | undefined): Table {
  const all = servicesTable(list);
  if (traffic === undefined) return all;
  const rates = list.items.map(({ name, namespace }) => {
    return aSecond(traffic.rates && (traffic.rates.services.get(`${namespace}/${name}`) ?? 0));
  });
  return {
    ...all,
    columns: [...all.columns, { name: 'Connections/s', kind: 'number' }],
    rows: all.rows.map((row, i) => [...row, rates[i]]),
  };
}

/** The search form. It is not a live part, because the reader may be typing in it. */
function searchForm({ namespace, q, state }: ServiceFilter): Html {
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

function pages(filter: ServiceFilter, { continue: next }: ServiceList): Content {
  const links = [
    ...(filter.continue === ''
      ? []
      : [html`<a href="${servicesPath({ ...filter, continue: '' })}">First page</a> `]),
    ...(next === undefined
      ? []
      : [html`<a href="${servicesPath({ ...filter, continue: next })}" rel="next">Next page</a>`]),
  ];
  return links.length === 0 ? undefined : html`<nav aria-label="Pages of Services">${links}</nav>`;
}
