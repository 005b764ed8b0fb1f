// Loads the library whose path is given and makes a context in it, as a program of the system that it was built for would. Then the
// system refuses every thread: the exception that this throws inside the library must be caught there, and become a status.
// Linked with -rdynamic: the library finds the pthread_create below before the system's.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#include "../include/pagoda_cpu.h"

static int is_refusing = 0;

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  typedef int (*Create)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (is_refusing) return EAGAIN;
  return ((Create)dlsym(RTLD_NEXT, "pthread_create"))(thread, attributes, run, argument);
}

int main(int count, char** arguments) {
  void* library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
  if (library == NULL) {
    fprintf(stderr, "%s\n", count == 2 ? dlerror() : "the library's path is missing");
    return 1;
  }
  int32_t (*version)(void) = (int32_t (*)(void))dlsym(library, "pg_abi_version");
  int32_t (*create)(int32_t, int32_t, uint64_t*) = (int32_t (*)(int32_t, int32_t, uint64_t*))dlsym(library, "pg_context_create");
  int32_t (*isa)(const void*) = (int32_t (*)(const void*))dlsym(library, "pg_isa");
  int32_t (*destroy)(void*) = (int32_t (*)(void*))dlsym(library, "pg_context_free");
  uint64_t context = 0;
  if (version() != PG_ABI_VERSION || create(2, 0, &context) != PG_OK) return 1;
  printf("loaded, kernels of instruction set %d\n", isa((void*)context));
  if (destroy((void*)context) != PG_OK) return 1;
  is_refusing = 1;
  const int32_t status = create(2, 0, &context);
  printf("without threads: status %d\n", status);
  return status == PG_E_MEMORY ? 0 : 1;
}
