// Functions that newer versions of glibc have in a new form, bound to the old one, so that a library linked here loads on glibc 2.28.
// scripts/build-packages.mjs links this with --wrap.
#include <pthread.h>
#include <sys/stat.h>

#ifdef __aarch64__
#define OLD "GLIBC_2.17"
#define STAT_VERSION 0
#else
#define OLD "GLIBC_2.2.5"
#define STAT_VERSION 1
#endif
#define BIND(name) __asm__(".symver old_" #name "," #name "@" OLD)

double old_exp(double x);
double old_log(double x);
double old_pow(double x, double y);
int old___fxstat(int version, int file, struct stat* out);
int old_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument);
int old_pthread_join(pthread_t thread, void** result);
int old_pthread_detach(pthread_t thread);
int old_pthread_once(pthread_once_t* once, void (*run)(void));
int old_pthread_key_create(pthread_key_t* key, void (*end)(void*));
BIND(exp);
BIND(log);
BIND(pow);
BIND(__fxstat);
BIND(pthread_create);
BIND(pthread_join);
BIND(pthread_detach);
BIND(pthread_once);
BIND(pthread_key_create);

double __wrap_exp(double x) { return old_exp(x); }
double __wrap_log(double x) { return old_log(x); }
double __wrap_pow(double x, double y) { return old_pow(x, y); }
int __wrap_fstat(int file, struct stat* out) { return old___fxstat(STAT_VERSION, file, out); }
int __wrap_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  return old_pthread_create(thread, attributes, run, argument);
}
int __wrap_pthread_join(pthread_t thread, void** result) { return old_pthread_join(thread, result); }
int __wrap_pthread_detach(pthread_t thread) { return old_pthread_detach(thread); }
int __wrap_pthread_once(pthread_once_t* once, void (*run)(void)) { return old_pthread_once(once, run); }
int __wrap_pthread_key_create(pthread_key_t* key, void (*end)(void*)) { return old_pthread_key_create(key, end); }
