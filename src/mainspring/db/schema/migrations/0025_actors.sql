-- Who waits for due visits of a queue though it is no worker: offers tell it like a sleeping worker. A row that is past means nothing.
create table mainspring.sleeper (
  queue text collate "C" not null,
  id uuid not null,
  until timestamptz not null,
  primary key (queue, id)
) with (fillfactor = 50);

-- The secrets under which tickets of actors elsewhere are sealed; the greatest number seals, the others only open.
-- Only those who hand out tickets read it.
create table mainspring.secret (
  number integer primary key,
  secret bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
    constraint secret_secret_check check (octet_length(secret) = 32),
  created_at timestamptz not null default now()
);
insert into mainspring.secret (number) values (1);
