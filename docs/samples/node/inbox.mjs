// Stores events as files, each once and never in part. In a database: an insert whose key is the event's id.

import { randomUUID } from "node:crypto";
import { open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";

// False if the file does not exist, or a full disk or a power failure cut it off.
async function isWhole(file, id) {
  try {
    return JSON.parse(await readFile(file))?.id === id;
  } catch (error) {
    if (error.code !== "ENOENT" && !(error instanceof SyntaxError)) throw error;
    return false;
  }
}

// Writes a file as a whole: under another name, which only a synced file changes.
export async function writeWhole(directory, name, content) {
  const part = join(directory, `.${randomUUID()}.part`);
  try {
    const file = await open(part, "wx");
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(part, join(directory, name));
  } catch (error) {
    await rm(part, { force: true });
    throw error;
  }
  const names = await open(directory);
  await names.sync().finally(() => names.close());
}

// Resolves when the event is on the disk. A stored event stays as it is. No error and no crash leaves a part of
// an event under the name that makes the next delivery a duplicate.
export async function store(inbox, id, event) {
  const name = `${id}.json`;
  if (!(await isWhole(join(inbox, name), id))) await writeWhole(inbox, name, event);
}

// Removes what a crash left, but nothing that another program may be writing.
export async function removeParts(inbox) {
  for (const name of await readdir(inbox)) {
    if (!/^\..*\.part$/.test(name)) continue;
    const file = join(inbox, name);
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: NaN })); // renamed meanwhile
    if (Date.now() - mtimeMs > 3_600_000) await rm(file, { force: true });
  }
}
