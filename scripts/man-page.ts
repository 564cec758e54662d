/** Makes the manual page from the tables of commands and flags, in roff with man macros. */
import { type Command, fullName } from '../src/cli/command.ts';
import { shownCommands } from '../src/cli/commands.ts';
import { flagHeading, usageOf } from '../src/cli/help.ts';
import { describeFlag, flagsIn, heading } from '../src/config/help.ts';
import type { SettingKey } from '../src/config/settings/index.ts';
import { type FlagGroup, flagGroups } from '../src/config/settings/spec.ts';
import { fairleadVersion } from '../src/config/version.ts';

/** Escapes backslashes and hyphens, and points and quotes at the start of a line. */
function roff(text: string): string {
  const escaped = text.replaceAll('\\', '\\e').replaceAll('-', '\\-').replaceAll('\u00a0', '\\ ');
  return escaped.replace(/^(?=[.'])/gm, '\\&');
}

function bold(text: string): string {
  return `\\fB${roff(text)}\\fR`;
}

function paragraph(term: string, text: string): string {
  return `.TP\n${term}\n${roff(text)}`;
}

function flag(key: SettingKey): string {
  return paragraph(bold(heading(key)), describeFlag(key));
}

/** The flags by group, without deprecated ones. */
function options(): string {
  const groups = (Object.keys(flagGroups) as FlagGroup[]).map((group) => {
    return `.SS ${roff(flagGroups[group])}\n${flagsIn(group).map(flag).join('\n')}`;
  });
  return groups.join('\n');
}

const exitCodes = [
  ['0', 'Success, or the process was asked to end.'],
  [
    '1',
    'Failure; the last line of standard error says why. For a command that asks the running process: the answer names a problem, or what was asked for does not exist.',
  ],
  ['2', 'Wrong usage: standard error says what is wrong, as text.'],
  ['3', 'For a command that asks the running process: no process answers.'],
] as const;

const files = [
  ['/var/run/secrets/kubernetes.io/serviceaccount', 'Where a pod finds its API server’s token.'],
  ['/run/xtables.lock', 'Held while tables of iptables-legacy are replaced.'],
] as const;

/** A command: usage, meaning, flags, examples. */
function commandSection(command: Command): string {
  const { examples, exitCodes, flags = {}, meaning = command.summary, takesRunFlags } = command;
  const own = Object.entries(flags).map(([name, one]) =>
    paragraph(bold(flagHeading(name, one)), one.meaning),
  );
  const also = takesRunFlags ? ['.PP\nAlso takes the flags of section OPTIONS.'] : [];
  const codes = exitCodes === undefined ? [] : [`.PP\n${roff(`Exit codes: ${exitCodes}.`)}`];
  const lines = examples.map((line) => roff(line)).join('\n');
  return [
    `.SS ${roff(fullName(command))}`,
    `${bold(usageOf(command))}\n.PP\n${roff(meaning)}`,
    ...own,
    ...also,
    ...codes,
    `.PP\n.nf\n.RS\n${lines}\n.RE\n.fi`,
  ].join('\n');
}

export function manPage(): string {
  const list = (rows: readonly (readonly [string, string])[]): string =>
    rows.map(([term, text]) => paragraph(bold(term), text)).join('\n');
  return `.\\" Written by scripts/docs.ts from src; do not edit.
.TH FAIRLEAD 8 "" "Fairlead ${fairleadVersion.slice(1)}" "System Administration"
.nh
.ad l
.SH NAME
fairlead \\- service proxy of a Kubernetes node
.SH SYNOPSIS
.B fairlead
[\\fIcommand\\fR] [\\fIflags\\fR]
.SH DESCRIPTION
${roff(`Fairlead watches Services and EndpointSlices and programs the kernel of a node so that connections
to Services reach their endpoints. It takes kube-proxy's flags and configuration, answers on
kube-proxy's ports, and talks to the kernel by netlink.`)}
.PP
${roff(`When it ends the rules stay in force, and the next process takes them over. SIGHUP reads the
configuration file again; SIGTERM and SIGINT end the process.`)}
.SH COMMANDS
${shownCommands.map(commandSection).join('\n')}
.SH OPTIONS
${roff('With --config the file counts, and most flags do not. Booleans are switched off with --flag=false.')}
${options()}
.SH EXIT STATUS
${list(exitCodes)}
.SH FILES
${list(files)}
.SH SEE ALSO
.BR nft (8),
.BR iptables (8),
.BR ipvsadm (8)
`;
}
