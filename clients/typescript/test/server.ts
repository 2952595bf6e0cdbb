// A real server for the tests. RATEKEEPER_BIN names the program; the default is that of a debug build of the repository.
import { type ChildProcess, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
export const packageRoot = here('../../');

export interface Running {
  address: string;
  stop(): Promise<void>;
}

/** Starts a server on a free port, with the rules of the tests or the sample rules. */
export async function start(rules?: string): Promise<Running> {
  const program = process.env['RATEKEEPER_BIN'] ?? here('../../../../target/debug/ratekeeper');
  const options = ['--http', '0', '--grpc', 'off', '--resp', 'off', '--admin', 'off', ...(rules ? ['--rules', rules] : [])];
  const child: ChildProcess = spawn(program, ['serve', ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
  const address = await new Promise<string>((resolve, reject) => {
    let printed = '';
    child.once('error', reject);
    child.once('exit', () => reject(new Error(`the server did not start: ${printed}`)));
    child.stdout?.on('data', (part: Buffer) => {
      printed += part.toString();
      const found = /http:\/\/[0-9.:]+/.exec(printed);
      if (found) resolve(found[0]);
    });
  });
  const stop = () =>
    new Promise<void>((resolve) => {
      child.removeAllListeners('exit');
      child.once('exit', () => resolve());
      child.kill();
    });
  return { address, stop };
}

export const rules = `${packageRoot}test/rules.yaml`;

/** A server that accepts connections and never answers. */
export async function silent(): Promise<Running> {
  const listener = createServer((socket) => socket.on('error', () => undefined).resume());
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const { port } = listener.address() as { port: number };
  return { address: `http://127.0.0.1:${port}`, stop: async () => void listener.close() };
}
