// Packages that most programs do not need and that are therefore installed by those that do.

import { errorFor } from "./errors.js";

/** What `load` imports, or an error that says what to install. `packages` are the names as npm takes them, `feature` what needs them. */
export async function optionalPackage<T>(load: () => Promise<T>, packages: string, feature: string): Promise<T> {
  try {
    return await load();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw errorFor("package_missing", { value: packages, feature });
  }
}
