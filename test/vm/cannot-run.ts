/** This machine lacks something that the runner needs; the message says what and how to get it. */
export class CannotRun extends Error {}
