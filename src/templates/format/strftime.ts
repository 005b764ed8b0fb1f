// strftime in the C locale.

const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const DAY_MS = 86_400_000;

export function strftime(format: string, date: Date): string {
  return format.replaceAll(/%(-?)([A-Za-z%])/g, (whole, minus: string, letter: string) => {
    const shown = field(letter, date);
    if (shown === null) return whole;
    return minus === "" ? shown : shown.replace(/^[0 ]+(?=.)/, "");
  });
}

function field(letter: string, date: Date): string | null {
  const pad = (value: number, width = 2, fill = "0") => String(value).padStart(width, fill);
  const hour12 = date.getHours() % 12 || 12;
  const yearStart = Date.UTC(date.getFullYear(), 0, 1);
  const dayOfYear = (Date.UTC(date.getFullYear(), date.getMonth(), date.getDate()) - yearStart) / DAY_MS;
  const weekday = date.getDay();
  switch (letter) {
    case "%":
      return "%";
    case "Y":
      return String(date.getFullYear());
    case "y":
      return pad(date.getFullYear() % 100);
    case "C":
      return pad(Math.floor(date.getFullYear() / 100));
    case "m":
      return pad(date.getMonth() + 1);
    case "B":
      return MONTHS[date.getMonth()]!;
    case "b":
    case "h":
      return MONTHS[date.getMonth()]!.slice(0, 3);
    case "d":
      return pad(date.getDate());
    case "e":
      return pad(date.getDate(), 2, " ");
    case "j":
      return pad(dayOfYear + 1, 3);
    case "A":
      return DAYS[weekday]!;
    case "a":
      return DAYS[weekday]!.slice(0, 3);
    case "w":
      return String(weekday);
    case "u":
      return String(weekday || 7);
    case "U":
      return pad(Math.floor((dayOfYear + 7 - weekday) / 7));
    case "W":
      return pad(Math.floor((dayOfYear + 7 - ((weekday + 6) % 7)) / 7));
    case "H":
      return pad(date.getHours());
    case "I":
      return pad(hour12);
    case "M":
      return pad(date.getMinutes());
    case "S":
      return pad(date.getSeconds());
    case "f":
      return pad(date.getMilliseconds() * 1000, 6);
    case "p":
      return date.getHours() < 12 ? "AM" : "PM";
    case "s":
      return String(Math.floor(date.getTime() / 1000));
    case "z":
    case "Z":
      return ""; // the time has no zone
    case "D":
    case "x":
      return strftime("%m/%d/%y", date);
    case "F":
      return strftime("%Y-%m-%d", date);
    case "T":
    case "X":
      return strftime("%H:%M:%S", date);
    case "R":
      return strftime("%H:%M", date);
    case "r":
      return strftime("%I:%M:%S %p", date);
    case "c":
      return strftime("%a %b %e %H:%M:%S %Y", date);
    case "n":
      return "\n";
    case "t":
      return "\t";
    default:
      return null;
  }
}
