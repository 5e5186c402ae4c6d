-- A time-ordered id (UUID version 7): 48 bits of milliseconds, the rest random. Older servers have none of their own.
create or replace function mainspring.uuid7() returns uuid
  language sql volatile parallel safe
  as $$
    select encode(
      overlay(
        set_byte(uuid_send(gen_random_uuid()), 6, (get_byte(uuid_send(gen_random_uuid()), 6) & 15) | 112)
        placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3)
        from 1 for 6
      ), 'hex')::uuid
  $$;
