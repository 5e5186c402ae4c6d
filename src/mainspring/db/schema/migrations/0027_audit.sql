-- What operators ordered: who, when, by which door, to what, and what came of it. Written in the order's own transaction, so there
-- is no order without its row and no row without its order. Nobody changes a row; those that are old are dropped (drop_audit.sql).
create table mainspring.audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default mainspring.now(),
  actor text not null,
  via text not null,
  address text,
  action text collate "C" not null,
  target text collate "C" not null,
  reason text,
  details jsonb not null default '{}',
  result text,
  operation bigint
);
create index audit_at on mainspring.audit (at);
