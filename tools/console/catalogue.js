// The tables of the source as the page lists them, and which of them a SELECT reads under which name.
const RESERVED = new Set(
  ("all analyse analyze and any array as asc asymmetric both case cast check collate column constraint create " +
    "current_date current_role current_time current_timestamp current_user default deferrable desc distinct do else " +
    "end except false fetch for foreign from grant group having in initially intersect into lateral leading limit " +
    "localtime localtimestamp not null offset on only or order placing primary references returning select " +
    "session_user some symmetric table then to trailing true union unique user using variadic when where window with " +
    "cross full inner join left natural outer right is isnull like notnull overlaps similar ilike freeze verbose").split(" "),
);
export const KEYWORDS = (
  "SELECT|FROM|WHERE|GROUP BY|ORDER BY|HAVING|JOIN|LEFT JOIN|INNER JOIN|FULL JOIN|CROSS JOIN|LATERAL|ON|USING|AS|AND|OR|" +
  "NOT|IN|IS NULL|IS NOT NULL|BETWEEN|LIKE|ILIKE|EXISTS|CASE|WHEN|THEN|ELSE|END|DISTINCT|DISTINCT ON|UNION ALL|UNION|" +
  "EXCEPT|INTERSECT|WITH|VALUES|LIMIT|OFFSET|FILTER|OVER|PARTITION BY|WINDOW|COALESCE|NULLIF|CAST|TRUE|FALSE|NULL|" +
  "DESC|ASC|NULLS LAST|EXTRACT|INTERVAL|count|sum|avg|min|max|round|array_agg|string_agg|jsonb_agg|jsonb_build_object|" +
  "row_number|date_trunc"
).split("|");
const NAME = '(?:"[^"]*"|[\\w$]+)';
const READ = new RegExp(`(?:\\bfrom|\\bjoin|,)\\s*(?:lateral\\s+)?(${NAME})\\.(${NAME})(?=(?:\\s+(?:as\\s+)?(${NAME}))?)`, "gi");

export const quoted = (name) => (/^[a-z_][a-z0-9_$]*$/.test(name) && !RESERVED.has(name) ? name : `"${name.replaceAll('"', '""')}"`);
const bare = (name) => (name?.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name?.toLowerCase());

export function tables() {
  return [...document.querySelectorAll("#tables [data-table]")].map(tableOf);
}

export function tableOf(item) {
  const columns = [...item.querySelectorAll("[data-column]")].map(({ dataset: column }) => {
    return { name: column.column, type: column.type, text: column.text };
  });
  return { schema: item.dataset.schema, name: item.dataset.table, text: item.dataset.text, columns };
}

// [{name, table}]: what columns can be written after.
export function readIn(sql, known) {
  return [...sql.matchAll(READ)].flatMap(([, schema, name, alias]) => {
    const table = known.find((one) => one.schema === bare(schema) && one.name === bare(name));
    const isAlias = alias && !RESERVED.has(alias.toLowerCase());
    return table ? [{ name: isAlias ? bare(alias) : table.name, table }] : [];
  });
}
