-- Callers from outside (mainspring serve): who may come, and what tells a call that is sent again.
-- A token's secret is not kept, only its SHA-256. A row with a san lets in who shows a client certificate with that name.
create table mainspring.api_token (
  id text collate "C" primary key,
  name text not null constraint api_token_name_check check (name <> '' and octet_length(name) <= 200),
  hash bytea constraint api_token_hash_check check (octet_length(hash) = 32),
  san text collate "C",
  scopes text[] not null,
  created_at timestamptz not null default now(),
  created_by text not null default '',
  expires_at timestamptz not null,
  revoked_at timestamptz,
  constraint api_token_proof_check check ((hash is null) <> (san is null))
);
create unique index api_token_san on mainspring.api_token (san) where revoked_at is null;

-- The request that set a state from outside, and the version that it made: as long as the state has that version, the same request
-- sent again is told that it was done.
alter table mainspring.state
  add column request_id text,
  add column request_version bigint;

-- Rises with every change of a param: who moves it back says what it saw.
alter table mainspring.param add column revision bigint not null default 0;
