create table if not exists listing (
  id bigint generated always as identity primary key,
  version bigint not null default 1,
  owner text not null,
  status text not null default 'active' check (status in ('active', 'expired', 'withdrawn')),
  published_at timestamptz not null default now(),
  title text not null,
  category text not null,
  catalogue integer not null default 1,
  year integer not null,
  mileage_km integer not null,
  price integer not null,
  predicted_price integer,
  photos jsonb not null default '[]',
  video_url text,
  video_ok boolean,
  views bigint not null default 0
);
