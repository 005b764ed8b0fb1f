// An object as it is, but for some of its methods: for classes whose private fields a derived object would not have.

export function overriding<T extends object>(object: T, methods: Partial<T>): T {
  return new Proxy(object, {
    get: (target, name) => {
      const own = Reflect.get(methods, name) ?? Reflect.get(target, name, target);
      return typeof own === "function" ? own.bind(target) : own;
    },
  });
}
