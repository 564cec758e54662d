/** The page of one Service. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { serviceBlocks, serviceFacts } from '../../ask/views/service.ts';
import { type Html, html } from './html.ts';
import { blocksHtml, facts, list, live } from './parts.ts';

export function serviceSection(service: ServiceAnswer, nowMs: number): Html {
  const { name, namespace, problems } = service;
  return live('service', [
    html`<h2>${namespace}/${name}</h2>`,
    verdict(service),
    problems.length > 1 ? list(problems.slice(1)) : undefined,
    facts(serviceFacts(service), nowMs),
    blocksHtml(serviceBlocks(service), nowMs),
  ]);
}

function verdict({ problems, state }: ServiceAnswer): Html {
  const [first] = problems;
  if (first !== undefined) {
    return html`<p class="verdict bad"><strong class="bad">Unhealthy.</strong> ${first}</p>`;
  }
  const words = {
    'in force': 'All of it is in force.',
    waiting: 'A change of it is not in the kernel yet.',
    'set aside': 'The kernel refuses it.',
  };
  return html`<p class="verdict"><strong class="good">Healthy.</strong> ${words[state]}</p>`;
}
