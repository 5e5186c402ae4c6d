-- Fields that are not shown, by queue: the names that code declares with redact=, and whether results are hidden whole.
create table mainspring.redaction (
  queue text collate "C" primary key,
  fields text[] collate "C" not null,
  result boolean not null default false,
  changed_at timestamptz not null
);
