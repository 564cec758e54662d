/** The page of one Service. */
import type { ServiceAnswer } from '../../ask/service.ts';
import { serviceBlocks, serviceFacts } from '../../ask/views/service.ts';
import { explainForm } from './explain.ts';
import { type Html, html } from './html.ts';
import { blocksHtml, facts, live, problemList, runbookLink, servicePath } from './parts.ts';

/** `isMore`: with what the page asks others for, which is not to be asked every two seconds. */
export function serviceSection(service: ServiceAnswer, isMore: boolean, nowMs: number): Html {
  const { name, namespace, ports, problems, runbook } = service;
  const key = `${namespace}/${name}`;
  const [first] = ports;
  const content = [
    html`<h2>${key}</h2>`,
    verdict(service),
    problems.length > 1 ? problemList(problems.slice(1), runbook.slice(1)) : undefined,
    facts(serviceFacts(service), nowMs),
    isMore
      ? html`<p>As it was when you asked. <a href="${servicePath(namespace, name)}">Follow it</a></p>`
      : html`<p><a href="${servicePath(namespace, name, true)}">With names of pods and answers</a></p>`,
    blocksHtml(serviceBlocks(service), nowMs),
  ];
  return html`${isMore ? html`<section>${content}</section>` : live('service', content)}
${explainForm(first === undefined ? '' : `${key}:${first.port}`, '')}`;
}

function verdict({ problems, runbook, state }: ServiceAnswer): Html {
  const [first] = problems;
  if (first !== undefined) {
    const link = runbookLink(runbook[0]!);
    return html`<p class="verdict bad"><strong class="bad">Unhealthy.</strong> ${first} ${link}</p>`;
  }
  const words = {
    'in force': 'All of it is in force.',
    waiting: 'A change of it is not in the kernel yet.',
    'set aside': 'The kernel refuses it.',
  };
  return html`<p class="verdict"><strong class="good">No known problem.</strong> ${words[state]}</p>`;
}
