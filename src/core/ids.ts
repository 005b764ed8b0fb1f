// Branded ids: numbers and strings that cannot be mixed up at compile time and cost nothing at run time.
declare const brand: unique symbol;
type Brand<T, Name extends string> = T & { readonly [brand]: Name };

/** Index of a page in the pool. Page 0 is the null page: padding points there, no request ever owns it. */
export type PageId = Brand<number, "PageId">;
export type RequestId = Brand<string, "RequestId">;

export const NULL_PAGE = 0 as PageId;
