// Functions that newer versions of glibc have in a new form, bound to the old one, so that a library linked here loads on glibc 2.28.
// scripts/build-packages.mjs links this with --wrap. Before 2.34 those of threads are in libpthread, which Node has loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __aarch64__
#define OLD "GLIBC_2.17"
#define OLD_AFFINITY OLD
#define STAT_VERSION 0
#else
#define OLD "GLIBC_2.2.5"
#define OLD_AFFINITY "GLIBC_2.3.4"
#define STAT_VERSION 1
#endif
#define BIND_TO(name, version) __asm__(".symver old_" #name "," #name "@" version)
#define BIND(name) BIND_TO(name, OLD)

double old_exp(double x);
double old_log(double x);
double old_pow(double x, double y);
int old___fxstat(int version, int file, struct stat* out);
int old_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument);
int old_pthread_join(pthread_t thread, void** result);
int old_pthread_detach(pthread_t thread);
int old_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* processors);
int old_pthread_once(pthread_once_t* once, void (*run)(void));
int old___pthread_key_create(pthread_key_t* key, void (*end)(void*));
int old_pthread_key_create(pthread_key_t* key, void (*end)(void*));
int old_pthread_key_delete(pthread_key_t key);
int old_pthread_setspecific(pthread_key_t key, const void* value);
void* old_pthread_getspecific(pthread_key_t key);
BIND(exp);
BIND(log);
BIND(pow);
BIND(__fxstat);
BIND(pthread_create);
BIND(pthread_join);
BIND(pthread_detach);
BIND_TO(pthread_setaffinity_np, OLD_AFFINITY);
BIND(pthread_once);
BIND(__pthread_key_create);
BIND(pthread_key_create);
BIND(pthread_key_delete);
BIND(pthread_setspecific);
BIND(pthread_getspecific);

double __wrap_exp(double x) { return old_exp(x); }
double __wrap_log(double x) { return old_log(x); }
double __wrap_pow(double x, double y) { return old_pow(x, y); }
int __wrap_fstat(int file, struct stat* out) { return old___fxstat(STAT_VERSION, file, out); }
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  return old_pthread_create(thread, attributes, run, argument);
}
int __wrap_pthread_join(pthread_t thread, void** result) { return old_pthread_join(thread, result); }
int __wrap_pthread_detach(pthread_t thread) { return old_pthread_detach(thread); }
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t* processors) {
  return old_pthread_setaffinity_np(thread, size, processors);
}
int __wrap_pthread_once(pthread_once_t* once, void (*run)(void)) { return old_pthread_once(once, run); }
int __wrap___pthread_key_create(pthread_key_t* key, void (*end)(void*)) { return old___pthread_key_create(key, end); }
int __wrap_pthread_key_create(pthread_key_t* key, void (*end)(void*)) { return old_pthread_key_create(key, end); }
int __wrap_pthread_key_delete(pthread_key_t key) { return old_pthread_key_delete(key); }
int __wrap_pthread_setspecific(pthread_key_t key, const void* value) { return old_pthread_setspecific(key, value); }
void* __wrap_pthread_getspecific(pthread_key_t key) { return old_pthread_getspecific(key); }

// What came new. The C++ library takes its older ways when a process is said to have several threads.
char __wrap___libc_single_threaded = 0;

#ifdef DLFO_EH_SEGMENT_TYPE
// The unwinder asks nobody else when this finds nothing, and then an exception ends the process: it is made of what was there before.
struct Search {
  uintptr_t address;
  struct dl_find_object* found;
};

static int search_object(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct Search* search = data;
  int is_here = 0;
  void* frames = NULL;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr)* segment = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == DLFO_EH_SEGMENT_TYPE) frames = (void*)start;
    if (segment->p_type != PT_LOAD || search->address < start || search->address - start >= segment->p_memsz) continue;
    is_here = 1;
    search->found->dlfo_map_start = (void*)start;
    search->found->dlfo_map_end = (void*)(start + segment->p_memsz);
  }
  if (!is_here || frames == NULL) return 0;
  search->found->dlfo_eh_frame = frames;
  return 1;
}

int __wrap__dl_find_object(void* address, struct dl_find_object* out) {
  *out = (struct dl_find_object){0};
  struct Search search = {(uintptr_t)address, out};
  return dl_iterate_phdr(search_object, &search) == 1 ? 0 : -1;
}
#endif

unsigned __wrap_arc4random(void) {
  unsigned value = 0;
  return getentropy(&value, sizeof value) == 0 ? value : 0;
}
