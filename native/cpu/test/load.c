// Loads the library whose path is given and makes a context in it, as a program of the system that it was built for would.
#include <dlfcn.h>
#include <stdio.h>

#include "../include/pagoda_cpu.h"

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", count == 2 ? dlerror() : "the library's path is missing");
    return 1;
  }
  int32_t (*create)(int32_t, int32_t, uint64_t*) = (int32_t (*)(int32_t, int32_t, uint64_t*))dlsym(library, "pg_context_create");
  int32_t (*isa)(const void*) = (int32_t (*)(const void*))dlsym(library, "pg_isa");
  int32_t (*destroy)(void*) = (int32_t (*)(void*))dlsym(library, "pg_context_free");
  uint64_t context = 0;
  if (create(2, 0, &context) != PG_OK) return 1;
  printf("loaded, kernels of instruction set %d\n", isa((void*)context));
  return destroy((void*)context) == PG_OK ? 0 : 1;
}
