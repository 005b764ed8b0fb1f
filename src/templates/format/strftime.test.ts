import assert from "node:assert/strict";
import { test } from "node:test";
import { strftime } from "./strftime.js";

// What Python's datetime.strftime makes of it in the C locale.
const FORMAT =
  "%Y|%y|%C|%m|%B|%b|%h|%d|%e|%j|%A|%a|%w|%u|%U|%W|%H|%I|%M|%S|%f|%p|%D|%x|%F|%T|%X|%R|%r|%c|%z%Z|%%|%-d|%-m|%-e|%-j|%-I|%-H";
const SHOWN: readonly [Date, string][] = [
  [
    new Date(2025, 2, 9, 14, 5, 7),
    "2025|25|20|03|March|Mar|Mar|09| 9|068|Sunday|Sun|0|7|10|09|14|02|05|07|000000|PM|03/09/25|03/09/25|2025-03-09|14:05:07|14:05:07|14:05|02:05:07 PM|Sun Mar  9 14:05:07 2025||%|9|3|9|68|2|14",
  ],
  [
    new Date(2024, 11, 31, 0, 0, 0),
    "2024|24|20|12|December|Dec|Dec|31|31|366|Tuesday|Tue|2|2|52|53|00|12|00|00|000000|AM|12/31/24|12/31/24|2024-12-31|00:00:00|00:00:00|00:00|12:00:00 AM|Tue Dec 31 00:00:00 2024||%|31|12|31|366|12|0",
  ],
  [
    new Date(2023, 0, 1, 12, 59, 59, 123),
    "2023|23|20|01|January|Jan|Jan|01| 1|001|Sunday|Sun|0|7|01|00|12|12|59|59|123000|PM|01/01/23|01/01/23|2023-01-01|12:59:59|12:59:59|12:59|12:59:59 PM|Sun Jan  1 12:59:59 2023||%|1|1|1|1|12|12",
  ],
  [
    new Date(2000, 1, 29, 11, 0, 10, 7),
    "2000|00|20|02|February|Feb|Feb|29|29|060|Tuesday|Tue|2|2|09|09|11|11|00|10|007000|AM|02/29/00|02/29/00|2000-02-29|11:00:10|11:00:10|11:00|11:00:10 AM|Tue Feb 29 11:00:10 2000||%|29|2|29|60|11|11",
  ],
  [
    new Date(1999, 0, 4, 23, 30, 1),
    "1999|99|19|01|January|Jan|Jan|04| 4|004|Monday|Mon|1|1|01|01|23|11|30|01|000000|PM|01/04/99|01/04/99|1999-01-04|23:30:01|23:30:01|23:30|11:30:01 PM|Mon Jan  4 23:30:01 1999||%|4|1|4|4|11|23",
  ],
];

test("every field of a date as Python writes it", () => {
  for (const [date, shown] of SHOWN) assert.equal(strftime(FORMAT, date), shown);
  assert.equal(strftime("%s", new Date(1_700_000_000_999)), "1700000000");
  assert.equal(strftime("a%nb%tc", new Date(0)), "a\nb\tc");
});

test("months and days by their names; what is no field stays as it is", () => {
  const months = Array.from({ length: 12 }, (_, month) => strftime("%b", new Date(2025, month, 1)));
  assert.equal(months.join(" "), "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec");
  const days = Array.from({ length: 7 }, (_, day) => strftime("%a%u%w", new Date(2025, 5, 1 + day)));
  assert.equal(days.join(" "), "Sun70 Mon11 Tue22 Wed33 Thu44 Fri55 Sat66");
  const weeks = Array.from({ length: 9 }, (_, day) => strftime("%U.%W", new Date(2022, 0, 1 + day)));
  assert.equal(weeks.join(" "), "00.00 01.00 01.01 01.01 01.01 01.01 01.01 01.01 02.01");
  assert.equal(strftime("%q %-q 100% %", new Date(0)), "%q %-q 100% %");
});
